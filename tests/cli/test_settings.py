from __future__ import annotations

from pathlib import Path

import pytest

from treering.cli.settings import resolve
from treering.storage.errors import ConfigError


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A project directory and an environment with a user file directory."""
    project = tmp_path / "project"
    (tmp_path / "user" / "treering").mkdir(parents=True)
    project.mkdir()
    return project, {"XDG_CONFIG_HOME": str(tmp_path / "user"), "HOME": str(tmp_path)}


def test_each_place_wins_over_the_weaker_ones(places: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    project, environ = places

    def limit(flags: dict[str, str] | None = None) -> tuple[object, str]:
        setting = resolve(flags or {}, environ=environ, directory=project)["limit"]
        return setting.value, setting.origin

    assert limit() == (100, "default")
    user = tmp_path / "user" / "treering" / "config.toml"
    user.write_text("limit = 1")
    assert limit() == (1, str(user))
    (project / "treering.toml").write_text("limit = 2")
    assert limit() == (2, str(project / "treering.toml"))
    environ["TREERING_LIMIT"] = "3"
    assert limit() == (3, "$TREERING_LIMIT")
    assert limit({"limit": "all"}) == (None, "--limit")


def test_a_store_in_a_file_is_relative_to_that_file(places: tuple[Path, dict[str, str]]) -> None:
    project, environ = places
    (project / "treering.toml").write_text('store = "logs/ring"')
    assert resolve({}, environ=environ, directory=project)["store"].value == str(project / "logs/ring")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stor = 'x'", "unknown setting 'stor'; did you mean store?"),
        ("limit = -1", "limit = -1: expected a whole number"),
        ("limit = true", "expected a whole number"),
        ("color = 'blue'", "expected one of auto, always, never"),
        ("store = ''", "expected a text"),
        ("tz = 'Mars/Olympus'", "no such time zone"),
        ("tz = '../../etc/passwd'", "ZoneInfo keys"),
        ("store = ", "Invalid"),
    ],
)
def test_a_bad_file_is_refused_with_its_path(
    places: tuple[Path, dict[str, str]], text: str, says: str
) -> None:
    project, environ = places
    (project / "treering.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        resolve({}, environ=environ, directory=project)
    assert says in str(caught.value)
    assert str(project / "treering.toml") in str(caught.value)


def test_a_bad_variable_is_named() -> None:
    with pytest.raises(ConfigError, match=r"\$TREERING_LIMIT: limit = 'many'"):
        resolve({}, environ={"TREERING_LIMIT": "many", "HOME": "/nonexistent"})
