"""The equations of hard parities: a sum of bits is 0 or 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.graph.factor_rows import FactorRows

_MOST_EQUATIONS = 4096  # Equations up to which they are solved: 0.2 s in Python integers. By hand.


def are_contradictory(rows: FactorRows) -> bool:
    """Return whether the equations of the hard parities have no solution: Gaussian elimination over 0 and 1.

    More than `_MOST_EQUATIONS` equations are not examined.
    """
    possible = ~np.isneginf(rows.log_values.reshape(-1, 2))  # [N, 2] of even and odd
    hard = np.flatnonzero(possible[:, 0] != possible[:, 1])
    if len(hard) > _MOST_EQUATIONS:
        return False
    known: dict[int, int] = {}  # Sums of equations by their highest bit; bit 0 is the right side.
    for a in hard.tolist():
        equation = int(possible[a, 1])
        for i in rows.scope_vars[rows.scope_ptr[a] : rows.scope_ptr[a + 1]].tolist():
            equation ^= 2 << i
        while equation > 1 and (top := equation.bit_length()) in known:
            equation ^= known[top]
        if equation == 1:  # 0 = 1
            return True
        if equation:
            known[equation.bit_length()] = equation
    return False
