"""How much a test tries, all of it by the profile of hypothesis: `pytest --hypothesis-profile=thorough`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import HealthCheck, settings

EVERYDAY, THOROUGH = 50, 1000
"""Examples of a test that does not ask for another number, by profile."""

_Point = TypeVar("_Point")


def register_profiles() -> None:
    """Make both profiles known and load the everyday one; an argument of pytest loads the other later."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    for name, n in (("everyday", EVERYDAY), ("thorough", THOROUGH)):
        settings.register_profile(
            name, deadline=None, max_examples=n, suppress_health_check=slow, print_blob=True
        )
    settings.load_profile("everyday")


def scaled(n: int) -> int:
    """Give a number that is meant for every day, for the profile of this run."""
    return n * settings().max_examples // EVERYDAY


def examples(n: int) -> settings:
    """Ask for another number of examples than the profile has; a decorator."""
    return settings(max_examples=scaled(n))


def some(points: Sequence[_Point], every: int) -> Sequence[_Point]:
    """Give every so manieth of the points at which something can happen, and all of them to a thorough run."""
    return points[:: every if scaled(1) == 1 else 1]
