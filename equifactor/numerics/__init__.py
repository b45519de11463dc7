"""Numbers that more than one family of solvers computes: compiled loops and tensor operations."""
