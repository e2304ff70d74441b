"""Fits the curve from an answer's distance to its context to a score, and says how good the score is.

    python -m benchmarks.fit.fit_hallucination [--data DIR] [--dry-run]

Cases of a set share documents; half of the documents are for fitting, half for the report, which gives 95 %
intervals over documents and, as a baseline, what the answer's length alone would do.

Fitted on: answers of a small dialogue model with a Wikipedia passage (FaithDial audit; entailed against
hallucinated), and summaries that are right (SummEdits) with their own document against the same with
another one. Only reported: SummEdits' edits (one detail of a right summary made wrong), and UHGEval
(Chinese news, continued by Chinese models with at least one wrong statement, against the real
continuation). Both were left out of the fit because the distance does not see such errors at all: a curve
fitted on them would be flat.
"""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.fit import texts
from treering.indexer import grounding
from treering.indexer.chunks import split_chunks, split_sentences
from treering.indexer.embedder import Embedder

OUT = Path(grounding.__file__).parent / "data" / "hallucination.json"
VERSION = 1
Floats = npt.NDArray[np.float64]
Split = Callable[[str], list[str]]
"""A context to its pieces."""


@dataclass(frozen=True, slots=True)
class Case:
    """A labelled answer. group: its document; documents are never split between fitting and testing."""

    name: str
    group: str
    context: str
    answer: str
    is_bad: bool


def main() -> None:
    options = texts.arguments(__doc__ or "")
    edits, audit, chinese = (
        list(summedits(options.data)),
        list(faithdial(options.data)),
        list(uhgeval(options.data)),
    )
    if not edits or not audit:
        raise SystemExit(
            f"{options.data}: SummEdits and FaithDial are not there; give their folder with --data"
        )
    cases = [*audit, *foreign(edits), *edits, *chinese, *foreign(chinese)]
    held_out = np.array([zlib.crc32(case.group.encode()) % 2 == 1 for case in cases])
    fitting = (
        np.array([case.name in {c.name for c in (*audit, *foreign(edits))} for case in cases]) & ~held_out
    )
    splits: dict[str, Split] = {
        "sentences": lambda text: cut(text, split_sentences),
        "chunks": lambda text: cut(text, split_chunks),
        "both": lambda text: grounding.context_pieces([text]),
    }
    vectors = embed(cases, list(splits.values()))
    for name, split in splits.items():
        raw = np.array([distance(case, split, vectors) for case in cases])
        curve = fit(raw[fitting], cases_of(cases, fitting))
        print(f"context as {name}: intercept {curve.intercept:.3f}, slope {curve.slope:.3f}")
        report(raw, cases, held_out, curve)
    print("length of the answer alone")
    report(np.array([float(len(case.answer)) for case in cases]), cases, held_out, None)
    if not options.dry_run:
        OUT.write_text(dump(curve, cases, fitting), encoding="utf-8")


def embed(cases: list[Case], splits: list[Split]) -> dict[str, npt.NDArray[np.float32]]:
    """Vectors of every sentence of an answer and every piece of a context."""
    wanted = {text: None for case in cases for text in grounding.sentences(case.answer)}
    for context in {case.context: None for case in cases}:
        wanted.update((text, None) for split in splits for text in split(context))
    return dict(zip(wanted, Embedder().encode_vectors(list(wanted)), strict=True))


def distance(case: Case, split: Split, vectors: dict[str, npt.NDArray[np.float32]]) -> float:
    answer, context = grounding.sentences(case.answer), split(case.context)
    return grounding.distance(np.stack([vectors[t] for t in answer]), np.stack([vectors[t] for t in context]))


def foreign(cases: list[Case]) -> list[Case]:
    """The good answers, with their own context (good) and with that of the set's next document (bad)."""
    result = []
    for name in dict.fromkeys(case.name for case in cases):
        good = [case for case in cases if case.name == name and not case.is_bad]
        contexts = list(dict.fromkeys(case.context for case in good))
        after = dict(zip(contexts, contexts[1:] + contexts[:1], strict=True))
        for case in good:
            result.append(
                Case(f"{name}, own or foreign", case.group, case.context, case.answer, is_bad=False)
            )
            result.append(
                Case(f"{name}, own or foreign", case.group, after[case.context], case.answer, is_bad=True)
            )
    return result


def fit(raw: Floats, cases: list[Case]) -> grounding.Curve:
    """Logistic regression by Newton's method; each set weighs the same, and in it good and bad cases do."""
    bad = np.array([case.is_bad for case in cases], float)
    kinds = [(case.name, case.is_bad) for case in cases]
    weight = np.array([1 / kinds.count(kind) for kind in kinds])
    design = np.stack([np.ones_like(raw), raw], axis=1)
    theta = np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-design @ theta))
        gradient = design.T @ (weight * (bad - p))
        hessian = (design * (weight * p * (1 - p))[:, None]).T @ design
        theta += np.linalg.solve(hessian, gradient)
    return grounding.Curve(VERSION, float(theta[0]), float(theta[1]))


def report(
    raw: Floats, cases: list[Case], held_out: npt.NDArray[np.bool_], curve: grounding.Curve | None
) -> None:
    for kind in dict.fromkeys(case.name for case in cases):
        mine = held_out & np.array([case.name == kind for case in cases])
        bad = np.array([case.is_bad for case in cases])[mine]
        groups = np.array([case.group for case in cases])[mine]
        line = f"{len(bad)} held out, {bad.mean():.0%} bad, AUROC {interval(auroc, raw[mine], bad, groups)}"
        if curve is not None:
            scores = np.array([grounding.score(value, curve) for value in raw[mine]])
            line += (
                f", balanced accuracy at .5 {interval(balanced_accuracy, scores, bad, groups)}, "
                f"median score of good {np.median(scores[~bad]):.2f}, of bad {np.median(scores[bad]):.2f}"
            )
        print(f"  {kind}: {line}")


def interval(
    measure: Callable[[Floats, npt.NDArray[np.bool_]], float],
    values: Floats,
    bad: npt.NDArray[np.bool_],
    groups: npt.NDArray[np.str_],
    *,
    n_draws: int = 500,
) -> str:
    """The measure with its 95 % interval, documents drawn with replacement."""
    rng = np.random.default_rng(texts.SEED)
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    draws = []
    for _ in range(n_draws):
        rows = np.concatenate([members[i] for i in rng.integers(0, len(members), len(members))])
        if 0 < bad[rows].sum() < len(rows):
            draws.append(measure(values[rows], bad[rows]))
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{measure(values, bad):.2f} ({low:.2f}-{high:.2f})"


def auroc(values: Floats, bad: npt.NDArray[np.bool_]) -> float:
    """Share of (bad, good) pairs in the right order, ties half."""
    gap = values[bad][:, None] - values[~bad][None, :]
    return float((gap > 0).mean() + (gap == 0).mean() / 2)


def balanced_accuracy(scores: Floats, bad: npt.NDArray[np.bool_]) -> float:
    return float(((scores > 0.5)[bad].mean() + (scores <= 0.5)[~bad].mean()) / 2)


def summedits(data: Path) -> Iterator[Case]:
    for path in sorted(data.glob("hallucination/summedits_*.jsonl")):
        for row in texts.rows(path):
            yield Case(path.stem, row["doc"][:200], row["doc"], row["summary"], row["label"] == 0)


def faithdial(data: Path) -> Iterator[Case]:
    """Answers that are wholly entailed or wholly not; generic and mixed ones are left out."""
    for path in sorted(data.glob("hallucination/faithdial_audit_*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                labels = set(row["begin_label"].strip().lower().split(","))
                is_bad, is_good = bool(labels & {"hallucination", "hallucinated"}), "entailment" in labels
                if is_bad != is_good and row["knowledge"].strip() and row["gpt2"].strip():
                    yield Case("faithdial", row["knowledge"][:200], row["knowledge"], row["gpt2"], is_bad)


def uhgeval(data: Path) -> Iterator[Case]:
    for path in sorted(data.glob("hallucination/uhgeval_*.jsonl")):
        for row in texts.rows(path):
            context = f"{row['headLine']}\n{row['newsBeginning']}"
            yield Case("uhgeval_zh", row["id"], context, row["hallucinatedContinuation"], is_bad=True)
            yield Case("uhgeval_zh", row["id"], context, row["realContinuation"], is_bad=False)


def cut(text: str, split: Callable[[str], Iterable[tuple[int, int]]]) -> list[str]:
    pieces = [text[start:end].strip() for start, end in split(text)]
    return [piece for piece in pieces if piece][: grounding.MAX_SENTENCES]


def cases_of(cases: list[Case], chosen: npt.NDArray[np.bool_]) -> list[Case]:
    return [case for case, is_chosen in zip(cases, chosen, strict=True) if is_chosen]


def dump(curve: grounding.Curve, cases: list[Case], chosen: npt.NDArray[np.bool_]) -> str:
    used = [case.name for case in cases_of(cases, chosen)]
    return (
        json.dumps(
            {
                "version": curve.version,
                "intercept": round(curve.intercept, 4),
                "slope": round(curve.slope, 4),
                "distance": "1 - mean over answer sentences of max cosine with context sentences and chunks",
                "fitted_on": {name: used.count(name) for name in dict.fromkeys(used)},
            },
            indent=2,
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
