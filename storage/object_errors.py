"""Failed requests as one line: what failed, why, and what to do about it."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError

from .errors import StoreError

_CODE = re.compile(r"<Code>([^<]*)</Code>")
_STATUS = re.compile(r"status code: (\d{3}[^:<]*)")
_REACHED = re.compile(r"Error performing [A-Z]+ (https?://[^/\s]+)")
_CREDENTIALS = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "AccessDenied"}
)
_SLOWER = frozenset({"SlowDown", "ServiceUnavailable", "Throttling", "RequestLimitExceeded"})


class RangeError(OSError):
    """The object ends before the range that was asked for."""


@contextmanager
def as_os_error(path: Path, what: str) -> Iterator[None]:
    """Raise the failure of a request about `path` as the OSError that a disk would give, or as one line."""
    try:
        yield
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise _no_bucket(path) from error
        raise FileNotFoundError(errno.ENOENT, "No such object", str(path)) from error
    except AlreadyExistsError as error:
        raise FileExistsError(errno.EEXIST, "Object exists", str(path)) from error
    except BaseError as error:
        raise _failure(path, what, error) from error


def _failure(path: Path, what: str, error: BaseError) -> OSError:
    text = str(error)
    code, status = _first(_CODE, text), _first(_STATUS, text)
    if code == "NoSuchBucket":
        return _no_bucket(path)
    if status.startswith("416") or "StartTooLarge" in text:
        return RangeError(errno.EINVAL, "range behind the end", str(path))
    return OSError(f"{what} {path}: {_reason(error, text, code, status)}")


def _reason(error: BaseError, text: str, code: str, status: str) -> str:
    if "169.254.169.254" in text or "169.254.170.2" in text:
        return "no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or code in _CREDENTIALS:
        told = code or status or "not allowed"
        return f"{told}; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and their rights on the bucket"
    if code in _SLOWER or status.startswith(("429", "503")):
        return f"{code or status}, also after retries; the service is overloaded, do it again later"
    if "error sending request" in text or "timed out" in text:
        endpoint = _first(_REACHED, text) or "the endpoint"
        return f"cannot reach {endpoint}; check the network and TREERING_S3_ENDPOINT"
    return " ".join(filter(None, (status, code))) or text.split("\n", 1)[0]


def _no_bucket(path: Path) -> StoreError:
    return StoreError(f"s3://{path.parts[1]}: no such bucket; make it first")


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1].strip() if found else ""
