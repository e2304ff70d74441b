"""Reaching S3 and what speaks like it: endpoint and credentials from the environment, as other tools have them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from obstore.store import S3Store

from .address import ObjectPath
from .bucket import Bucket
from .errors import ConfigError
from .object_cache import cache_from
from .objects import ObjectFiles

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config

ENDPOINT_VARIABLES = ("TREERING_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Where another endpoint than Amazon's is named; the first that is set counts."""

RETRIES = 5
"""How often a request is repeated that failed for a reason that may pass."""

RETRY_FOR = timedelta(seconds=60)
"""How long it is repeated at most."""

TIMEOUT = timedelta(minutes=5)
"""How long one request may take: a large segment is put as a whole over whatever line there is."""

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_YES = frozenset({"1", "true", "yes"})


def s3_files(root: ObjectPath, environ: Mapping[str, str] = os.environ) -> ObjectFiles:
    """Give the files below `root`; nothing is asked of the endpoint yet. Raises ConfigError for bad settings."""
    config: S3Config = {"region": _region(environ)}
    client: ClientConfig = {"timeout": TIMEOUT}
    if endpoint := _endpoint(environ):
        config["endpoint"] = endpoint
        client["allow_http"] = endpoint.startswith("http://")
    retry: RetryConfig = {"max_retries": RETRIES, "retry_timeout": RETRY_FOR}
    prefix = "/".join(root.parts[2:]) or None
    store = S3Store(root.parts[1], prefix=prefix, config=config, client_options=client, retry_config=retry)
    return ObjectFiles(Bucket(store, root), cache_from(environ))


def _endpoint(environ: Mapping[str, str]) -> str | None:
    """Give the endpoint; one without TLS only on this machine, unless AWS_ALLOW_HTTP says so."""
    name = next((name for name in ENDPOINT_VARIABLES if environ.get(name)), None)
    if name is None:
        return None
    endpoint = environ[name].rstrip("/")
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{name}={endpoint!r}: no address of an endpoint, expected https://HOST[:PORT]")
    is_allowed = environ.get("AWS_ALLOW_HTTP", "").lower() in _YES
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not is_allowed:
        raise ConfigError(
            f"{name}={endpoint!r}: without TLS everybody on the way can read and alter the store; use https, or "
            "set AWS_ALLOW_HTTP=true"
        )
    return endpoint


def _region(environ: Mapping[str, str]) -> str:
    return environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
