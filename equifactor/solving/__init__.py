"""The contract of solvers: what a solver is, what it returns, and the loops that run solvers."""
