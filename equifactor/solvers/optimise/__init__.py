"""Search over assignments: what single-variable moves and block moves need, compiled once per graph.

Symbols: V variables, X variable states, A arcs (ordered pairs of variables that share a factor), H slots of factors of
arity above two. `x [V]` is the assignment, `local [X]` the sum of the factors around a variable at each of its states,
the rest of the assignment held fixed: moving variable i to state b changes the score by `local[b] - local[x_i]`.
"""
