"""What the tree of a merged part takes over from the trees of its parts, instead of reading their rows again.

A node summarises a set of events, so a node of a part is good for any tree with the same events of that part in
one cell. Minima, maxima, sums and counts of several parts join whatever their order; a signature depends on
it, and is taken over only where all events of a node are of one part. Source: S69, S71.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .batch import Int32s, Int64s
from .part import FieldStats, Part
from .signature import N_VALUES
from .summaries import N_LEVELS, Bools, Floats, NumberSummary
from .tree import Tree

Nodes = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Source:
    """A part that is merged, as its tree sees it.

    in_time: int64, times of its events, ascending. fields: statistics of its columns. tree: None where rows
    have to be read. stale: columns of which the tree does not know the values.
    """

    in_time: Int64s
    fields: Mapping[str, FieldStats]
    tree: Tree | None = None
    stale: Collection[str] = ()

    @classmethod
    def of(cls, part: Part, *, has_tree: bool, stale: Collection[str] = ()) -> Source:
        """Make it of a part; has_tree: its tree is there, and need not be made for this."""
        in_time = part.ts if len(part.slices) <= 1 else np.sort(part.ts)
        return cls(in_time, part.fields, part.tree if has_tree else None, stale)

    def place(self, name: str) -> int:
        """Give the column of the tree's summaries that is about `name`; -1: no value anywhere, -2: not known."""
        if name not in self.fields:
            return -1
        if self.tree is None or name in self.stale or name not in self.tree.signals:
            return -2
        return self.tree.signals.index(name)

    def knows_levels(self) -> bool:
        """Whether the tree counts the severities: the column may have been too sparse to be summarised."""
        if self.tree is None or "level" in self.stale:
            return False
        n_known = int(self.tree.levels[0, 1:].sum()) if len(self.tree.count) else 0
        return n_known == (self.fields["level"].n if "level" in self.fields else 0)


@dataclass(frozen=True, slots=True)
class KnownNodes:
    """What sources know of the nodes of a merged tree, or of some of them.

    count: int64 (sources, nodes), events of each source in each node. node: intp (sources, nodes), the node of
    the source's tree with just these events, -1 where it has none.
    """

    sources: Sequence[Source]
    count: Int64s
    node: Nodes

    @classmethod
    def find(cls, sources: Sequence[Source], t_min: Int64s, t_max: Int64s) -> KnownNodes:
        """Look for the nodes that hold all events from t_min to t_max, both inclusive."""
        count = np.zeros((len(sources), len(t_min)), np.int64)
        node = np.full(count.shape, -1, np.intp)
        for k, source in enumerate(sources):
            start = np.searchsorted(source.in_time, t_min, side="left")
            end = np.searchsorted(source.in_time, t_max, side="right")
            count[k] = end - start
            if source.tree is not None:
                node[k] = _nodes_of(source.tree, source.in_time, start, end)
        return cls(sources, count, node)

    def only(self, wanted: Bools) -> KnownNodes:
        """Give what is known of these nodes."""
        return KnownNodes(self.sources, self.count[:, wanted], self.node[:, wanted])

    def numbers(self, name: str) -> tuple[NumberSummary, Bools]:
        """Give the summary of a column at every node, and at which nodes rows have to be read instead.

        There the summary is that of no rows.
        """
        n_nodes = self.count.shape[1]
        places = [source.place(name) for source in self.sources]
        unread = self._unknown([place == -2 for place in places], [place >= 0 for place in places])
        summary = NumberSummary.of_nothing(n_nodes)
        for source, place, nodes in zip(self.sources, places, self.node, strict=True):
            if place >= 0 and source.tree is not None:
                mine = np.flatnonzero((nodes >= 0) & ~unread)
                summary.join(mine, _summary_at(source.tree, place, nodes[mine]))
        return summary, unread

    def levels(self) -> tuple[Int32s, Bools]:
        """Give events by severity, int32 (nodes, 7), and at which nodes rows have to be read instead."""
        knows = [source.knows_levels() for source in self.sources]
        unread = self._unknown([not known for known in knows], knows)
        counts = np.zeros((self.count.shape[1], N_LEVELS), np.int32)
        for source, nodes in zip(self.sources, self.node, strict=True):
            if source.tree is not None:
                mine = np.flatnonzero((nodes >= 0) & ~unread)
                counts[mine] += source.tree.levels[nodes[mine]]
        return counts, unread

    def signatures(self) -> Floats:
        """Give the signatures of nodes whose events are of one source that kept it, NaN elsewhere."""
        found = np.full((self.count.shape[1], N_VALUES), np.nan)
        is_one = np.count_nonzero(self.count, axis=0) == 1
        for source, nodes in zip(self.sources, self.node, strict=True):
            if source.tree is not None:
                mine = np.flatnonzero((nodes >= 0) & is_one)
                found[mine] = source.tree.signature[nodes[mine]]
        return found

    def _unknown(self, is_hidden: Sequence[bool], needs_node: Sequence[bool]) -> Bools:
        """At which nodes a source has events and hides the column, or has no node of just these events."""
        if not self.sources:
            return np.ones(self.count.shape[1], np.bool_)
        has_events = self.count > 0
        hidden = has_events & np.array(is_hidden, np.bool_)[:, None]
        missing = has_events & (self.node < 0) & np.array(needs_node, np.bool_)[:, None]
        unknown: Bools = np.asarray((hidden | missing).any(axis=0), np.bool_)
        return unknown


def _nodes_of(tree: Tree, in_time: Int64s, start: Nodes, end: Nodes) -> Nodes:
    """Give the node with just the events `[start, end)` of the part in time order, -1 where there is none."""
    # No two nodes have the same events: a node's cell is the smallest that holds them.
    first = np.searchsorted(in_time, tree.t_min, side="left")
    span = len(in_time) + 1
    keys = first * span + first + tree.count
    order = np.argsort(keys)
    wanted = start * span + end
    place = np.minimum(np.searchsorted(keys[order], wanted), max(len(keys) - 1, 0))
    if not len(keys):
        return np.full(len(start), -1, np.intp)
    nodes = order[place]
    return np.where((keys[nodes] == wanted) & (end > start), nodes, -1)


def _summary_at(tree: Tree, place: int, nodes: Nodes) -> NumberSummary:
    n = tree.n[nodes, place]
    has_value = n > 0
    return NumberSummary(
        np.where(has_value, tree.minimum[nodes, place], np.inf),
        np.where(has_value, tree.maximum[nodes, place], -np.inf),
        np.where(has_value, tree.total[nodes, place], 0.0),
        n,
    )
