"""treering: the index engine for the logs of LLM serving.

The names below are loaded when first used, so that `import treering` and `treering --help` stay light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from treering.query.builder import col, where
    from treering.query.check import check
    from treering.query.opening import open_store as open
    from treering.query.opening import restore
    from treering.query.raw_files import query_files
    from treering.query.result import Result
    from treering.query.store import Store
    from treering.storage.errors import (
        ConfigError,
        DamageError,
        InputError,
        ModelError,
        QueryError,
        ShortageError,
        StoreError,
        TreeringError,
    )

_HOMES = {
    "Store": ("treering.query.store", "Store"),
    "open": ("treering.query.opening", "open_store"),
    "query_files": ("treering.query.raw_files", "query_files"),
    "restore": ("treering.query.opening", "restore"),
    "check": ("treering.query.check", "check"),
    "Result": ("treering.query.result", "Result"),
    "col": ("treering.query.builder", "col"),
    "where": ("treering.query.builder", "where"),
    **{
        name: ("treering.storage.errors", name)
        for name in (
            "ConfigError",
            "DamageError",
            "InputError",
            "ModelError",
            "QueryError",
            "ShortageError",
            "StoreError",
            "TreeringError",
        )
    },
}

__all__ = [
    "ConfigError",
    "DamageError",
    "InputError",
    "ModelError",
    "QueryError",
    "Result",
    "ShortageError",
    "Store",
    "StoreError",
    "TreeringError",
    "__version__",
    "check",
    "col",
    "open",
    "query_files",
    "restore",
    "where",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its room on first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'treering' has no attribute {name!r}")
    value = getattr(import_module(home[0]), home[1])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
