"""The queries of the shared trials are read, or refused where a right tool refuses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from treering.query.json_form import from_json, to_json
from treering.query.parse import parse
from treering.query.text_form import to_text
from treering.storage.errors import QueryError

TRIALS = Path(__file__).parents[2].parent / "shared" / "trials"


def test_trial_queries_are_read_in_every_form_or_refused_as_expected() -> None:
    if not TRIALS.is_dir():
        pytest.skip("no shared trials beside this checkout")
    checks = [
        check
        for path in sorted(TRIALS.glob("*/expect.json"))
        for check in json.loads(path.read_text()).get("checks", [])
    ]
    assert len(checks) > 50
    for check in checks:
        if "error" in check:
            with pytest.raises(QueryError):
                parse(check["dsl"])
            continue
        query = parse(check["dsl"])
        assert parse(to_text(query)) == query == from_json(to_json(query)), check["dsl"]
