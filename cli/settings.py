"""Settings and where each value comes from: flag, environment, project file, user file, default."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treering.storage.address import is_address
from treering.storage.errors import ConfigError

PROJECT_FILE = "treering.toml"
"""Settings of the working directory."""


@dataclass(frozen=True, slots=True)
class Key:
    """One setting. read turns its text or TOML value into what the program uses, or raises ValueError."""

    name: str
    default: Any
    doc: str
    read: Callable[[Any], Any]

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"TREERING_{self.name.upper()}"


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and the place it comes from, e.g. `--store`, `$TREERING_STORE`, a file's path, or `default`."""

    name: str
    value: Any
    origin: str


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("expected a text")
    return value


def read_limit(value: Any) -> int | None:
    """Read a row limit: a whole number from 0 on, or `all` (None)."""
    if value == "all":
        return None
    if isinstance(value, bool) or not str(value).isdecimal():
        raise ValueError("expected a whole number from 0 on, or all")
    return int(value)


def _zone(value: Any) -> str:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(_text(value)).key
    except (OSError, LookupError) as error:
        raise ValueError("no such time zone; names are like Asia/Shanghai") from error


def _one_of(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return str(value)

    return read


COLORS = ("auto", "always", "never")
"""When colour is used; `auto`: on a terminal, unless NO_COLOR or TERM=dumb say no."""

FORMATS = ("table", "jsonl", "json", "csv", "tsv", "md", "parquet", "arrow")
"""Output formats."""

KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        Key("store", ".treering", "directory of the store", _text),
        Key("tz", "UTC", "zone in which times are shown", _zone),
        Key("input_tz", "UTC", "zone of times that name none, while reading logs", _text),
        Key("format", None, "output format (default: table on a terminal, else jsonl)", _one_of(*FORMATS)),
        Key("limit", 100, "rows shown on a terminal, or all", read_limit),
        Key("color", "auto", "auto, always or never", _one_of(*COLORS)),
        Key("model", None, "embedding model: a name or a directory", _text),
    )
}
"""Every setting by name."""


def resolve(
    flags: Mapping[str, Any],
    *,
    environ: Mapping[str, str] = os.environ,
    directory: Path | None = None,
) -> dict[str, Setting]:
    """Give every setting from the strongest place that names it. Raises ConfigError for bad ones."""
    settings = {key.name: Setting(key.name, key.default, "default") for key in KEYS.values()}
    for path in (user_file(environ), (directory or Path()) / PROJECT_FILE):
        settings |= _from_file(path)
    for key in KEYS.values():
        if text := environ.get(key.variable):
            settings[key.name] = _read(key, text, f"${key.variable}")
    for name, value in flags.items():
        if name in KEYS and value is not None:
            settings[name] = _read(KEYS[name], value, f"--{name.replace('_', '-')}")
    return settings


def user_file(environ: Mapping[str, str]) -> Path:
    """Path of the user's settings file, whether or not there is one."""
    base = environ.get("XDG_CONFIG_HOME")
    return (
        (Path(base) if base else Path(environ.get("HOME", "~")).expanduser() / ".config")
        / "treering"
        / "config.toml"
    )


def _from_file(path: Path) -> dict[str, Setting]:
    if not path.is_file():
        return {}
    import tomllib

    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is no TOML in UTF-8: {error}") from error
    return {name: _from_entry(path, name, value) for name, value in values.items()}


def _from_entry(path: Path, name: str, value: Any) -> Setting:
    key = KEYS.get(name)
    if key is None:
        near = difflib.get_close_matches(name, KEYS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(KEYS)}"
        raise ConfigError(f"{path}: unknown setting {name!r}; {hint}")
    setting = _read(key, value, str(path))
    if name != "store" or is_address(setting.value):
        return setting
    # A store named in a file means the same directory from wherever the command is started.
    return Setting(name, str(path.parent / Path(setting.value).expanduser()), setting.origin)


def _read(key: Key, value: Any, origin: str) -> Setting:
    try:
        return Setting(key.name, key.read(value), origin)
    except ValueError as error:
        raise ConfigError(f"{origin}: {key.name} = {value!r}: {error}") from error
