"""Enough of S3's interface for a client, on loopback, with a fault if wanted.

fault: `overwrites` (ignores If-None-Match), `forgets` (a listing never shows what was put last), `denies` (403),
`slow` (503), `nobody` (no such bucket), or none.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

MADE = "Sat, 28 Nov 2026 10:00:00 GMT"
_FAILURES = {
    "denies": (403, "SignatureDoesNotMatch"),
    "slow": (503, "SlowDown"),
    "nobody": (404, "NoSuchBucket"),
}


class SmallS3(ThreadingHTTPServer):
    """Objects by bucket and key. requests: method and path of each, in order."""

    daemon_threads = True

    def __init__(self, fault: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.fault = fault
        self.objects: dict[str, bytes] = {}
        self.last = ""
        self.requests: list[tuple[str, str]] = []
        self.mutex = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def small_s3(fault: str = "") -> Iterator[SmallS3]:
    """Serve until the block ends."""
    server = SmallS3(fault)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Answer(BaseHTTPRequestHandler):
    server: SmallS3
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_PUT = do_DELETE = do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        key = unquote(parts.path).lstrip("/").partition("/")[2]
        with self.server.mutex:
            self.server.requests.append((self.command, self.path))
            self._dispatch(key, query, body)

    def _dispatch(self, key: str, query: dict[str, str], body: bytes) -> None:
        if self.server.fault in _FAILURES:
            return self._refuse(*_FAILURES[self.server.fault])
        if self.command == "PUT":
            return self._put(key, body)
        if self.command == "DELETE":
            self.server.objects.pop(key, None)
            return self._send(204)
        if self.command == "POST":
            return self._delete_many(body)
        return self._list(query) if not key else self._get(key)

    def _put(self, key: str, body: bytes) -> None:
        is_taken = self.headers.get("If-None-Match") == "*" and key in self.server.objects
        if is_taken and self.server.fault != "overwrites":
            return self._refuse(412, "PreconditionFailed")
        self.server.objects[key] = body
        self.server.last = key
        self._send(200, headers={"ETag": _tag(body)})

    def _get(self, key: str) -> None:
        body = self.server.objects.get(key)
        if body is None:
            return self._refuse(404, "NoSuchKey")
        start, end, status = 0, len(body), 200
        if span := self.headers.get("Range"):
            first, _, last = span.removeprefix("bytes=").partition("-")
            start, end, status = int(first), min(len(body), int(last) + 1 if last else len(body)), 206
            if start >= len(body):
                return self._refuse(416, "InvalidRange")
        told = {"ETag": _tag(body), "Last-Modified": MADE}
        if status == 206:
            told["Content-Range"] = f"bytes {start}-{end - 1}/{len(body)}"
        self._send(status, body[start:end], told)

    def _list(self, query: dict[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("start-after", "")
        found, folders = [], set()
        for key in sorted(self.server.objects):
            rest = key.removeprefix(prefix)
            if not key.startswith(prefix) or key <= after:
                continue
            if self.server.fault == "forgets" and key == self.server.last:
                continue
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                found.append(key)
        contents = "".join(_entry(key, self.server.objects[key]) for key in found)
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders)
        )
        self._send(200, f"<ListBucketResult>{contents}{common}</ListBucketResult>".encode())

    def _delete_many(self, body: bytes) -> None:
        keys = [one.text or "" for one in ElementTree.fromstring(body).iter() if one.tag.endswith("Key")]
        for key in keys:
            self.server.objects.pop(key, None)
        told = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self._send(200, f"<DeleteResult>{told}</DeleteResult>".encode())

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, f"<Error><Code>{code}</Code><Message>made to fail</Message></Error>".encode())

    def _send(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _tag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


def _entry(key: str, body: bytes) -> str:
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-28T10:00:00.000Z</LastModified>"
        f"<ETag>{escape(_tag(body))}</ETag><Size>{len(body)}</Size></Contents>"
    )
