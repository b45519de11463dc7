"""What is asked of a solver (`Task`) and how a run ended (`Status`)."""

from enum import StrEnum


class Task(StrEnum):
    """What is asked for: marginals, ln Z, the best assignment, or the best states of some variables."""

    MAR = "MAR"  # the marginal distribution of every variable
    PR = "PR"  # ln Z, the logarithm of the sum of all scores
    MAP = "MAP"  # the assignment with the highest score
    MMAP = "MMAP"  # the states of some variables with the highest sum over all others

    @property
    def maximises(self) -> bool:
        """Whether the answer is an assignment."""
        return self in (Task.MAP, Task.MMAP)


PLAIN_TASKS = (Task.MAR, Task.PR, Task.MAP)  # The tasks that need nothing but a graph; MMAP has a query.


class Status(StrEnum):
    """How a run ended. `solved` tells whether the answer is what the method promises."""

    EXACT = "exact"
    OPTIMAL = "optimal"
    CONVERGED = "converged"
    ITERATION_LIMIT = "iteration-limit"
    TIME_LIMIT = "time-limit"
    INTERRUPTED = "interrupted"
    TOO_LARGE = "too-large"
    ZERO_PROBABILITY = "zero-probability"
    NON_FINITE = "non-finite"

    @property
    def solved(self) -> bool:
        """Whether the run ended exact, proven optimal or converged."""
        return self in (Status.EXACT, Status.OPTIMAL, Status.CONVERGED)

    @property
    def advice(self) -> str:
        """What the status means and what to try, in a sentence or two."""
        return _ADVICE[self]


_ADVICE = {
    Status.EXACT: "The answer is exact up to rounding.",
    Status.OPTIMAL: "The assignment is proven to have the highest score.",
    Status.CONVERGED: "The iteration converged within its tolerance.",
    Status.ITERATION_LIMIT: "The iteration did not converge within its limit. Raise iterations or damping.",
    Status.TIME_LIMIT: "Time ran out. This is the best answer so far. Raise the time limit.",
    Status.INTERRUPTED: "The run was interrupted. This is the best answer so far.",
    Status.TOO_LARGE: "The model is too large for this solver. Use another solver, such as bp.",
    Status.ZERO_PROBABILITY: "Every assignment has probability zero. Check the evidence and the zeros in the tables.",
    Status.NON_FINITE: "The numbers left the range of floating point. Raise damping or use dtype float64.",
}
