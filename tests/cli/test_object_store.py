"""The command line over a store in a bucket."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.storage.small_s3 import small_s3

from .conftest import Done

STORE = ("-s", "s3://bucket/store")


def _settings(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TREERING_S3_ENDPOINT", url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setattr("treering.storage.s3.RETRIES", 0)


def test_verbs_take_an_address_for_the_store(
    call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text('{"ts":"2026-05-01T00:00:00Z","msg":"a","n":1}\n{"msg":"b","n":2}\n')
    with small_s3() as server:
        _settings(monkeypatch, server.url)
        assert call(*STORE, "ingest", "--no-embed", "a.jsonl").returncode == 0
        assert call(*STORE, "ingest", "--no-embed", "a.jsonl").returncode == 0
        found = call("query", "n > 0", *STORE)
        assert [json.loads(line)["n"] for line in found.stdout.splitlines()] == [1, 2]
        assert json.loads(call("stats", *STORE).stdout)["rows"] == 2
        (tmp_path / "treering.toml").write_text('store = "s3://bucket/store"\n')
        assert json.loads(call("stats").stdout)["path"] == "s3://bucket/store"
    assert not (tmp_path / "s3:").exists()


@pytest.mark.parametrize("fault", ["overwrites", "denies", "slow", "nobody"])
def test_a_bucket_that_cannot_be_used_is_one_line_and_exit_code_4(
    fault: str, call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text('{"msg":"a"}\n')
    with small_s3(fault) as server:
        _settings(monkeypatch, server.url)
        done = call(*STORE, "ingest", "--no-embed", "a.jsonl")
    assert done.returncode == 4
    assert done.stderr.startswith(b"error: s3://bucket")
    assert done.stderr.count(b"\n") == 1


def test_a_bad_address_is_a_usage_error(call: Callable[..., Done]) -> None:
    done = call("-s", "s3://", "query", "n > 0")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
