"""Which parts are read: all are asked what is told of them, by the cheapest evidence first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from treering.storage.part import Part

from .bound import BCond
from .prune import Candidates, Evidence, cut_to_leaves, in_time, part_answer, time_intervals
from .text_evidence import ALL, CANNOT, MAY, searched_texts

Told = list[tuple[Part, int]]
"""Parts that are not ruled out, with what they answer."""

REASONS = {Evidence.STATISTICS: "statistics", Evidence.PARTITIONS: "partition", Evidence.BLOOMS: "bloom"}
"""How a plan calls them."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Candidates of the parts that are read, and how many others were ruled out by what.

    skipped: by `time` (of the part, or of its rows), `statistics` (bounds, and fields that are absent),
    `partition` (listed values), `bloom` (filters over ids), `tree` (bounds of its leaves); each part counts
    where it was settled.
    """

    kept: list[Candidates] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


def survey(parts: Sequence[Part], where: BCond | None, start_ns: int | None, end_ns: int | None) -> Survey:
    """Ask all parts about `where` in `[start_ns, end_ns)`; files are opened only where the manifest does not tell."""
    found = Survey()
    left: Told = [(p, MAY if where else ALL) for p in parts if in_time(p, start_ns, end_ns)]
    found.skipped["time"] += len(parts) - len(left)
    if where is not None:
        for evidence in Evidence:
            left = _asked(left, where, evidence, found)
    for part, answer in left:
        intervals = time_intervals(part, start_ns, end_ns)
        one = cut_to_leaves(part, where, answer, intervals)
        if one is None:
            found.skipped["tree" if intervals else "time"] += 1
        else:
            found.kept.append(one)
    return found


def _asked(left: Told, where: BCond, evidence: Evidence, found: Survey) -> Told:
    texts = searched_texts(where, is_equal=evidence == Evidence.BLOOMS)
    answers = [
        (part, int(part_answer(where, part, evidence)))
        if answer == MAY and _can_tell(part, texts, evidence)
        else (part, answer)
        for part, answer in left
    ]
    kept = [told for told in answers if told[1] != CANNOT]
    found.skipped[REASONS[evidence]] += len(left) - len(kept)
    return kept


def _can_tell(part: Part, texts: frozenset[str], evidence: Evidence) -> bool:
    if evidence == Evidence.PARTITIONS:
        return not texts.isdisjoint(part.partitions)
    return evidence == Evidence.STATISTICS or bool(texts)
