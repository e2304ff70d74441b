"""Contents that are wrong although every checksum is right are found, and so is a chain that was altered."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.storage.checking import look, mended, wrong
from tests.storage.whole_store import (
    LIES,
    LIVE,
    embed,
    file_of,
    open_store,
    records,
    stored_rows,
    told_otherwise,
)
from treering.storage import derived, vectors
from treering.storage.catalog import Change, Committer, load
from treering.storage.document import pack, unpack
from treering.storage.files import OS_FILES, crc32c
from treering.storage.findings import Severity
from treering.storage.layout import Layout
from treering.storage.newest import newest_version
from treering.storage.post_file import write_post
from treering.storage.stored_file import StoredFile
from treering.storage.tree_file import write_tree


def test_an_altered_audit_record_is_named(store: Path) -> None:
    path = file_of(store, "list of audit records")
    body = unpack("audit", path.read_bytes(), "")
    body["entries"]["000000000001"]["details"]["query"] = "nothing"
    rewritten(store, "audit", path, body)
    (found,) = wrong(look(store))
    assert (
        found.file.startswith("meta/audit-") and "record 1: its hash is not that of the chain" in found.what
    )


def rewritten(store: Path, kind: str, path: Path, body: dict[str, Any]) -> None:
    """Put another list in the place of one, with all checksums right."""
    layout, data = Layout(store), pack(kind, body)
    version = newest_version(OS_FILES, layout)
    catalog = load(OS_FILES, layout, version)
    (old,) = (one for one in getattr(catalog.root, kind) if one.file.name == path.name)
    path.write_bytes(data)
    new = replace(old, file=StoredFile(path.name, len(data), crc32c(data)))
    lists = tuple(new if one == old else one for one in getattr(catalog.root, kind))
    changed: dict[str, Any] = {kind: lists}
    root = replace(catalog.root, **changed)
    (store / f"_manifest/{version:020d}.json").write_bytes(pack("manifest", root.to_json()))


@pytest.mark.parametrize("what", LIES)
def test_a_manifest_that_disagrees_with_the_rows_is_found(store: Path, what: str) -> None:
    told_otherwise(store, LIES[what])
    found = wrong(look(store, deep=True))
    assert any(what in one.what for one in found if one.severity is Severity.DAMAGED)


def derived_wrong(store: Path, monkeypatch: pytest.MonkeyPatch, kind: str, wrongs: Any) -> None:
    """Write a derived file anew with something wrong in it, and checksums that are right."""
    with monkeypatch.context() as patch:
        patch.setattr(derived, f"write_{'tree' if kind == 'patt' else 'post'}", wrongs)
        file_of(store, kind).unlink()
        mended(store)


def test_a_derived_file_that_disagrees_with_the_rows_is_found_and_mended(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong_tree(files: Any, path: Path, tree: Any, n_slices: int, **more: Any) -> Any:
        return write_tree(files, path, replace(tree, maximum=tree.maximum + 1), n_slices, **more)

    def wrong_post(files: Any, path: Path, part: Any, *, filters: Any, **more: Any) -> Any:
        words = {name: pa.array(np.asarray(array) | 1) for name, array in filters[0].items()}
        return write_post(files, path, part, filters=(words, filters[1]), **more)

    for kind, made, what in (("patt", wrong_tree, "its maximum"), ("post", wrong_post, "the filter of")):
        derived_wrong(store, monkeypatch, kind, made)
        assert look(store).is_clean
        found = wrong(look(store, deep=True))
        assert {one.severity for one in found} == {Severity.DERIVED}
        assert any(what in one.what for one in found if f"/{kind}-" in one.file)
    assert mended(store, deep=True).is_clean
    assert set(stored_rows(store)) == LIVE


def test_bounds_of_vectors_are_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "ring") as ring:
        ring.append(records(range(50)))
        ring.flush()
        monkeypatch.setattr(vectors, "plane_error", lambda rest, step: np.zeros(len(step), np.float32))
        embed(ring)
        ring.fold()
    found = wrong(look(tmp_path / "ring", deep=True))
    assert [one.what for one in found] == ["codes, scale and err of a vector do not bound it"]
    assert found[0].file.endswith("vec.arrow")


def test_events_that_stand_in_two_segments_are_found(store: Path) -> None:
    layout = Layout(store)
    catalog = load(OS_FILES, layout, newest_version(OS_FILES, layout))
    (meta,) = (one for one in catalog.segments.entries.values() if one.id.startswith("22-0-"))
    twin = replace(meta, id="22-0-ffff")
    shutil.copytree(layout.segment(meta.id), layout.segment(twin.id))
    (layout.segment(twin.id) / "segment.json").unlink()
    Committer(OS_FILES, layout, catalog, epoch=1).commit(Change(put_segments=[twin]))
    found = look(store, deep=True).of(Severity.DAMAGED)
    assert [one.what for one in found] == [
        f"events with sequence numbers in [2000, 2400) stand in segment {meta.id} as well"
    ]
