"""The opposite of a condition, where an event whose meaning is not known yet matches neither of the two."""

from __future__ import annotations

from .bound import BAnd, BCond, BNot, BOr, BSimilar

_OPPOSITE = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}


def opposite(cond: BCond) -> BCond:
    """Give what holds where `cond` does not.

    A comparison of meaning is turned round (`not ~ "x" > 0.6` is `~ "x" <= 0.6`), so that a row without a vector
    satisfies neither; every other condition has its plain opposite.
    """
    if not _has_meaning(cond):
        return cond.item if isinstance(cond, BNot) else BNot(cond)
    match cond:
        case BNot():
            return cond.item
        case BAnd():
            return BOr(tuple(opposite(item) for item in cond.items))
        case BOr():
            return BAnd(tuple(opposite(item) for item in cond.items))
        case BSimilar() if cond.op in _OPPOSITE:
            return BSimilar(cond.probe, _OPPOSITE[cond.op], cond.threshold)
        case BSimilar():
            return BOr(tuple(BSimilar(cond.probe, op, cond.threshold) for op in "<>"))
    return BNot(cond)


def _has_meaning(cond: BCond) -> bool:
    match cond:
        case BSimilar():
            return True
        case BNot():
            return _has_meaning(cond.item)
        case BAnd() | BOr():
            return any(_has_meaning(item) for item in cond.items)
    return False
