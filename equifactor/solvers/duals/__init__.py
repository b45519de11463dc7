"""Dual ascent: messages that lower an upper bound on the score of every assignment.

- `duals`: the solvers mplp and srmp.
- `ascent`, `cycle_ascent`: the passes over messages, with and without factors for cycles of three variables.
- `map_bounds`: the upper bound of given messages, and messages that start from those of another solver.

Files whose names end in `_kernels` are loops for Numba.

Symbols: V variables, X variable states, S edge states, T table entries. `x [V]` is the assignment.
"""
