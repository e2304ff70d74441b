"""What is in a store: bytes by kind of file, whatever the store and the directories above it are called."""

from pathlib import Path

import pytest

import treering as tr
from treering.query.overview import FILE_KINDS, file_bytes

FILES = {
    "LOCK": "other",
    "backup.json": "other",
    "_manifest/00000000000000000042.json": "manifest",
    "meta/segments-00000107.json": "meta",
    "meta/model-00000001.json": "meta",
    "wal/000017.wal": "wal",
    "rejects/00000106.arrow": "rejects",
    **{f"seg/22-404512-9f86d081884c7d65/{kind}.arrow": kind for kind in FILE_KINDS[:7]},
    "seg/22-404512-9f86d081884c7d65/segment.json": "segment",
    "seg/22--4045-9f86d081884c7d65/late-0000.arrow": "late",
    "seg/22--4045-9f86d081884c7d65/del-0003.arrow": "del",
    "seg/22--4045-9f86d081884c7d65/unheard-of.bin": "other",
    "reembed/seg/22-404512-9f86d081884c7d65/vec.arrow": "reembed",
    "reembed/wal/000001.wal": "reembed",
    "salvaged/2026-05-01/wal/000001.wal": "salvaged",
}


@pytest.mark.parametrize("root", ["/a/ring", "/wal/seg/meta", "rejects", "/reembed"])
def test_every_file_of_a_store_is_of_a_kind(root: str) -> None:
    sizes = {Path(root) / name: 1 << at for at, name in enumerate(FILES)}
    expected: dict[str, int] = {}
    for at, kind in enumerate(FILES.values()):
        expected[kind] = expected.get(kind, 0) + (1 << at)
    assert file_bytes(Path(root), sizes) == expected
    assert list(file_bytes(Path(root), sizes)) == [kind for kind in FILE_KINDS if kind in expected]


def test_the_bytes_of_a_store_are_those_of_its_files(tmp_path: Path) -> None:
    with tr.open(tmp_path / "ring") as store:
        store.ingest([{"n": n} for n in range(5)], embed=False)
        store.flush()
        (tmp_path / "bad.jsonl").write_text('{"n": 1}\n{"n": \n')
        assert store.ingest(tmp_path / "bad.jsonl", embed=False).rejected == 1
        told = store.stats()["bytes"]
    with tr.open(tmp_path / "ring", mode="r") as store:
        told = store.stats()["bytes"]
    assert set(told) <= set(FILE_KINDS) and {
        "hot",
        "text",
        "segment",
        "wal",
        "meta",
        "manifest",
        "rejects",
    } <= set(told)
    assert sum(told.values()) == sum(
        file.stat().st_size for file in (tmp_path / "ring").rglob("*") if file.is_file()
    )
