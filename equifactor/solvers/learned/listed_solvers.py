"""What `equifactor solvers` prints of the learned solvers, so that a list of names imports neither torch nor Numba.

A solver without a line here is imported for the list.
"""

NATIVE = ("fe-gnn", "fe-nbp", "fe-net")  # The solvers that need no torch.
# The tasks, the symmetries and the summary of each solver, as its class states them.
LISTED = {
    "bpnn": (
        "MAR PR MAP",
        "global, local variable",
        "Belief propagation with a learned damping of whole message vectors; one cardinality per model (BPNN).",
    ),
    "fe-gnn": (
        "MAR MAP",
        "global, local variable",
        "Recurrent network on messages that meets the tables in a tensor sum; one cardinality per model (FE-GNN).",
    ),
    "fe-nbp": (
        "MAR PR MAP",
        "all",
        "Belief propagation whose damping a small network chooses, one number per edge state (FE-NBP).",
    ),
    "fe-net": (
        "MAR PR MAP",
        "all",
        "Belief propagation with a learned hidden vector on every edge state; respects all symmetries (FE-Net).",
    ),
    "fgnn": (
        "MAR MAP",
        "global",
        "Graph network on variables and factors with edge-conditioned weights; one cardinality and arity (FGNN).",
    ),
    "ggnn": (
        "MAR MAP",
        "global",
        "Gated graph network that sees tables as features; one cardinality and largest arity per model (GGNN).",
    ),
    "nebp": (
        "MAR PR MAP",
        "global, local variable",
        "Belief propagation whose messages a graph network corrects; one cardinality per model (NEBP).",
    ),
}
