"""Search for the most probable assignment: branch and bound, local search, beam search.

- `branch`: a proof by branch and bound (`branch_and_bound`), and the same by another program (`toulbar2`).
- `local_search`: annealed regions and tabu walks (`walker`).
- `beam` (beam, best-first): the best assignments visited and their neighbours.

Files whose names end in `_kernels`, and `tree_blocks` and `tree_regions`, are loops for Numba.

Symbols: V variables, X variable states, S edge states, T table entries. `x [V]` is the assignment. `local [X]` is the
sum of the factors around a variable at each of its states, with the rest of the assignment held fixed: moving variable
i to state b changes the score by `local[b] - local[x_i]`.
"""
