"""The contract between questions and solvers: what a solver is, its answers, its loop and its name."""
