"""Stores in S3, as far as a client meets it: a server with its interface, errors, settings, addresses."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from treering.storage.address import ObjectPath, is_address, object_path
from treering.storage.errors import ConfigError, StoreError
from treering.storage.objects import ObjectFiles
from treering.storage.place import located
from treering.storage.ring import Ring
from treering.storage.s3 import s3_files

from .records import MODEL, decode, fill, numbers_in, position, raw_batch, reject, stored_numbers
from .small_s3 import small_s3

BUCKET = "treering-test"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{url}/{BUCKET}", method="PUT")).close()
    yield url
    server.stop()


@pytest.fixture
def s3(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Settings of a user, and an address that is new."""
    _use(monkeypatch, endpoint, tmp_path)
    return f"s3://{BUCKET}/{tmp_path.name}"


def _use(monkeypatch: pytest.MonkeyPatch, url: str, tmp_path: Path) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "TREERING_CACHE_LIMIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TREERING_S3_ENDPOINT", url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("TREERING_CACHE", str(tmp_path / "cache"))


def _open(address: str, mode: str = "w") -> Ring:
    return Ring.open(address, mode, decoder=decode)  # type: ignore[arg-type]


def test_the_whole_life_of_a_store(s3: str) -> None:
    with _open(s3) as writer:
        writer.set_model(MODEL)
        reader = _open(s3, "r")
        for n in range(0, 12, 3):
            writer.append(raw_batch(range(n, n + 3)), positions=[position(n + 3)], rejects=[reject(n)])
            assert stored_numbers(reader) == list(range(n + 3))
            writer.flush()
            assert stored_numbers(reader) == list(range(n + 3))
        held = reader.snapshot()
        fill(writer)
        assert numbers_in(held) == list(range(12))
        held.close()
        with reader.snapshot() as snapshot:
            assert numbers_in(snapshot) == list(range(12))
            assert snapshot.pending == 0
            assert snapshot.n_rejected == 4
        reader.close()
        writer.append(raw_batch(range(12, 14)))
    with _open(s3) as writer, _open(s3, "r") as reader:
        assert stored_numbers(writer) == stored_numbers(reader) == list(range(14))
        assert [one.line for one in reader.rejects()] == [0, 3, 6, 9]
        assert writer.position("source") == position(12)
        assert str(writer.path) == s3


def test_a_second_writer_takes_over_and_the_first_is_told(s3: str) -> None:
    first = _open(s3)
    first.append(raw_batch(range(3)))
    second = _open(s3)
    with pytest.raises(
        StoreError, match=rf"^{s3}: another writer took over \(epoch 2\); open the store again$"
    ):
        first.append(raw_batch(range(3, 5)))
    first.close()
    second.append(raw_batch(range(3, 5)))
    second.close()
    assert stored_numbers(_open(s3, "r")) == list(range(5))


def test_the_second_reader_of_a_machine_takes_segments_from_the_cache(s3: str) -> None:
    with _open(s3) as writer:
        writer.append(raw_batch(range(5)))
        writer.flush()
    found = []
    for _ in range(2):
        files, place = located(s3)
        assert isinstance(files, ObjectFiles)
        with Ring.open(place, "r", decoder=decode, files=files) as reader:
            assert stored_numbers(reader) == list(range(5))
        found.append((files.cache.misses, files.cache.hits))
    (first_misses, _), (second_misses, second_hits) = found
    assert first_misses > 2
    assert (second_misses, second_hits) == (0, first_misses)


def test_a_store_in_a_bucket_is_backed_up_to_a_directory(s3: str, tmp_path: Path) -> None:
    with _open(s3) as there:
        there.append(raw_batch(range(4)), rejects=[reject(1)])
        there.flush()
        there.append(raw_batch(range(4, 9)))
        there.backup(tmp_path / "copy")
        there.append(raw_batch(range(9, 11)))
        there.flush()
        there.backup(tmp_path / "copy")
    assert stored_numbers(_open(str(tmp_path / "copy"), "r")) == list(range(11))


def test_what_is_counted_is_what_the_server_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with small_s3() as server:
        _use(monkeypatch, server.url, tmp_path)
        files, place = located("s3://bucket/store")
        assert isinstance(files, ObjectFiles)
        with Ring.open(place, "w", decoder=decode, files=files) as writer:
            writer.append(raw_batch(range(5)))
            writer.flush()
            assert stored_numbers(writer) == list(range(5))
        assert sum(files.bucket.requests.values()) == len(server.requests)
        assert files.bucket.bytes_written >= sum(map(len, server.objects.values()))
        assert all(key.startswith("store/") for key in server.objects)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("overwrites", "ignores If-None-Match: two writers would overwrite each other"),
        ("forgets", "does not list an object that was just put"),
        ("denies", "SignatureDoesNotMatch; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("nobody", "s3://bucket: no such bucket; make it first"),
    ],
)
def test_an_endpoint_that_cannot_hold_a_store_is_refused_in_one_line(
    fault: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with small_s3(fault) as server:
        _use(monkeypatch, server.url, tmp_path)
        with pytest.raises(StoreError, match=told) as raised:
            _open("s3://bucket/store")
        assert "\n" not in str(raised.value)
        assert [key for key in server.objects if "probe" not in key] == []


def test_an_endpoint_that_overwrites_can_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with small_s3() as server:
        _use(monkeypatch, server.url, tmp_path)
        with _open("s3://bucket/store") as writer:
            writer.append(raw_batch(range(3)))
        server.fault = "overwrites"
        assert stored_numbers(_open("s3://bucket/store", "r")) == [0, 1, 2]


def test_a_service_that_is_overloaded_or_out_of_reach_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("treering.storage.s3.RETRIES", 0)
    with small_s3("slow") as server:
        _use(monkeypatch, server.url, tmp_path)
        with pytest.raises(StoreError, match="also after retries; the service is overloaded"):
            _open("s3://bucket/store", "r")
        url = server.url
    with pytest.raises(StoreError, match=f"cannot reach {url}; check the network and TREERING_S3_ENDPOINT"):
        _open("s3://bucket/store", "r")


def test_a_writer_that_loses_the_service_stops_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("treering.storage.s3.RETRIES", 0)
    with small_s3() as server:
        _use(monkeypatch, server.url, tmp_path)
        writer = _open("s3://bucket/store")
        writer.append(raw_batch(range(3)))
        server.fault = "slow"
        with pytest.raises(
            StoreError,
            match=r"flush failed: put s3:.*overloaded.*; events up to number 2 are.*only the flush",
        ):
            writer.flush()
        with pytest.raises(StoreError, match=r"append failed: .*; close the store and open it again"):
            writer.append(raw_batch(range(3, 5)))
        assert writer.is_stopped
        writer.close()
        server.fault = ""
        with _open("s3://bucket/store") as writer:
            writer.append(raw_batch(range(3, 5)))
            assert stored_numbers(writer) == list(range(5))


def test_addresses_are_paths_that_show_as_they_are_written() -> None:
    path = object_path("s3://bucket/logs/prod/")
    assert (str(path), str(path / "wal" / "1"), str(path.parent)) == (
        "s3://bucket/logs/prod",
        "s3://bucket/logs/prod/wal/1",
        "s3://bucket/logs",
    )
    assert f"{path}: x" == "s3://bucket/logs/prod: x"
    assert path == object_path(str(path))
    assert isinstance(path / "wal", ObjectPath)
    assert is_address(path) and is_address("s3://bucket") and is_address(Path("s3://bucket"))
    assert object_path(Path("s3://bucket/x")) == object_path("s3://bucket/x")
    assert not is_address("ring") and not is_address(Path("ring")) and not is_address("s3:x")
    assert located(Path("ring"))[1] == Path("ring").absolute()


@pytest.mark.parametrize(
    "address", ["s3://", "s3:///x", "s3://bucket//x", "s3://bucket/a/../b", "s3://bu cket/x"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="expected s3://BUCKET/PREFIX"):
        located(address)


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"TREERING_S3_ENDPOINT": "minio:9000"}, "no address of an endpoint"),
        ({"AWS_ENDPOINT_URL": "http://storage.example"}, "without TLS"),
        ({"TREERING_CACHE_LIMIT": "much"}, "no size"),
    ],
)
def test_settings_that_make_no_sense_are_refused(environ: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        s3_files(object_path("s3://bucket/store"), environ)


def test_an_endpoint_without_tls_is_taken_where_it_is_allowed_or_on_this_machine() -> None:
    for environ in (
        {"AWS_ENDPOINT_URL": "http://storage.example", "AWS_ALLOW_HTTP": "true"},
        {"TREERING_S3_ENDPOINT": "http://localhost:9000", "AWS_ENDPOINT_URL": "nonsense"},
        {"AWS_ENDPOINT_URL_S3": "https://storage.example"},
        {},
    ):
        assert s3_files(object_path("s3://bucket/store"), environ).bucket.root == object_path(
            "s3://bucket/store"
        )


def test_without_obstore_a_bucket_is_refused_and_a_directory_works(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("treering.storage.s3", "obstore", "obstore.store", "obstore.exceptions"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ConfigError, match=r"needs obstore; pip install 'treering\[s3\]'"):
        located("s3://bucket/store")


def test_opening_a_directory_does_not_load_obstore(tmp_path: Path) -> None:
    code = (
        "import sys; from treering.storage.ring import Ring; "
        "Ring.open(sys.argv[1], decoder=lambda raw, seq: None).close(); sys.exit('obstore' in sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "ring")], cwd=Path(__file__).parents[2], check=True
    )
