"""Dual ascent: messages that lower an upper bound on the score of every assignment.

- `dual_solvers`: the solvers mplp and srmp.
- `ascent`, `cycle_ascent`: the sweeps over messages, without and with triplets of variables along frustrated cycles.
- `map_bounds`: the upper bound of any messages, and passes of dual ascent that lower it.
- `stall`: decides when a bound has stopped falling.

Files whose names end in `_kernels` are loops for Numba.

Symbols: V variables, X variable states, S edge states, T table entries. `x [V]` is the assignment.
"""
