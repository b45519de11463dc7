"""Errors that are decoded as parts: one part for each side of a code that is decoded from X and Z detectors together.

The detectors of a CSS code have two sides, X and Z. A Y error flips detectors of both, as an X error and a Z error
together would. So it closes short cycles with them, on which belief propagation is weak. Here each set of detectors of
one side becomes a bit of its own, a *part*. A *link* is a check that says: a part is set if an odd number of the errors
that contain it have happened. Only parts are in the checks of detectors, so that the graph of each side is that of one
basis, and the links join the sides. The idea is that of GARI [Maan25].
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np

from equifactor.decoding.problem import DecodingProblem, transposed
from equifactor.kernels.pointers import ptr_of

_LARGEST = 12  # Errors with more detectors are not divided to find the sides: they have too many subsets.
_DENSE = 16.0  # Checks with more errors than this on average are those of a circuit. Chosen by hand.
_FEWER = 0.9  # Parts are used if they leave at most this share of the edges. Chosen by hand.


def linked(problem: DecodingProblem) -> DecodingProblem:
    """Return the problem with parts and links, or the problem itself if they would save few edges.

    Bits are the bits of the problem and then the parts; checks are the links and then the checks of the problem.
    """
    columns = columns_of(problem)
    side = sides_of(columns, problem.num_checks)
    if len(set(side)) < 2:
        return problem
    part_of: dict[tuple[int, ...], int] = {}
    parts_of_bit = []
    for column in columns:
        groups: dict[int, list[int]] = {}
        for check in column:
            groups.setdefault(side[check], []).append(check)
        parts_of_bit.append([part_of.setdefault(tuple(group), len(part_of)) for group in groups.values()])
    uses = np.zeros(len(part_of), np.int64)
    mixed = np.zeros(len(part_of), bool)
    for parts in parts_of_bit:
        uses[parts] += 1
        mixed[parts] |= len(parts) > 1
    has_link = mixed & (uses > 1)
    link = np.cumsum(has_link) - 1
    count = int(has_link.sum())
    bits: list[int] = []
    rows: list[int] = []
    members = list(part_of)
    for bit, parts in enumerate(parts_of_bit):
        for part in parts:
            own = [int(link[part])] if has_link[part] else [count + check for check in members[part]]
            rows += own
            bits += [bit] * len(own)
    for part in np.flatnonzero(has_link).tolist():
        own = [int(link[part]), *(count + check for check in members[part])]
        rows += own
        bits += [problem.num_bits + int(link[part])] * len(own)
    if len(rows) > _FEWER * len(problem.bit_of_edge):
        return problem
    order = np.lexsort((bits, rows))
    return replace(
        problem, num_links=count, ratio=np.concatenate((problem.ratio, np.zeros(count))),
        check_ptr=ptr_of(np.bincount(rows, minlength=count + problem.num_checks)),
        bit_of_edge=np.asarray(bits, np.int64)[order],
    )  # fmt: skip


def columns_of(problem: DecodingProblem) -> list[tuple[int, ...]]:
    """Return the checks of every bit."""
    ptr, checks = transposed(problem.check_ptr, problem.bit_of_edge, problem.num_bits)
    return [tuple(checks[a:b].tolist()) for a, b in itertools.pairwise(ptr.tolist())]


def is_hard(problem: DecodingProblem) -> bool:
    """Return whether belief propagation often fails: for circuits of bicycle or colour codes, not of surface codes.

    Checks have many errors, and some error flips three or more checks of one side.
    """
    if len(problem.bit_of_edge) <= _DENSE * problem.num_checks:
        return False
    columns = columns_of(problem)
    side = sides_of(columns, problem.num_checks)
    return any(Counter(side[check] for check in column).most_common(1)[0][1] > 2 for column in columns)


def sides_of(columns: list[tuple[int, ...]], num_checks: int) -> list[int]:
    """Return the side of every check, from the checks of every bit.

    A bit whose checks are those of two other bits together says nothing. The checks of any other bit are on one side.
    """
    parent = list(range(num_checks))

    def root(check: int) -> int:
        while parent[check] != check:
            parent[check] = parent[parent[check]]
            check = parent[check]
        return check

    known = set(columns)
    for column in sorted(known, key=lambda c: (len(c), c)):
        if len({root(check) for check in column}) > 1 and not _is_composed(column, known):
            for check in column[1:]:
                parent[root(check)] = root(column[0])
    return [root(check) for check in range(num_checks)]


def _is_composed(column: tuple[int, ...], known: set[tuple[int, ...]]) -> bool:
    """Return whether two known columns are disjoint and make up this one. A column that is too long counts as such."""
    if len(column) > _LARGEST:
        return True
    for size in range(1, len(column) // 2 + 1):
        for some in itertools.combinations(column, size):
            if some in known and tuple(check for check in column if check not in some) in known:
                return True
    return False
