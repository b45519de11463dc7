"""Draw docs/figures/trust.svg: belief propagation that oscillates, and errors against the strength of couplings.

`python docs/figures/trust.py`    half a minute on one core; `measured()` has the numbers
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib import rcParams
from matplotlib.figure import Figure

import equifactor as ef
from equifactor.show.palette import styles_of

STRENGTHS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
SOLVERS = ("bp", "bp(damping=0.5)", "fe-net(untrained)", "fe-net")
STEPS = 40


def beliefs_by_step(damping: float) -> np.ndarray:
    """Return the probability of +1 at one spin of a 5x5 spin glass after 0, 1, .. iterations."""
    graph = ef.generators.ising_grid(5, 5, seed=0)
    found = [ef.solve(graph, "MAR", f"bp(damping={damping}, iterations={n})") for n in range(1, STEPS)]
    return np.array([0.5, *(result.marginals[12][1] for result in found)])


def measured(count: int = 30) -> dict[str, list[float]]:
    """Return the mean KL of each solver on 8x8 spin glasses, by the standard deviation of the couplings."""
    errors: dict[str, list[float]] = {solver: [] for solver in SOLVERS}
    for strength in STRENGTHS:
        graphs = ef.generators.ising_grid(8, 8, coupling_std=strength, seed=1000, count=count)
        exact = ef.solve(graphs, "MAR", "exact")
        for solver in SOLVERS:
            found = ef.solve(graphs, "MAR", solver)
            kl = [ef.metrics.kl(a.marginals, b.marginals) for a, b in zip(exact, found, strict=True)]
            errors[solver].append(float(np.mean(kl)))
    return errors


def draw() -> Figure:
    """Draw two panels: one spin against iterations, and errors against couplings."""
    figure = Figure(figsize=(10.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    graph = ef.generators.ising_grid(5, 5, seed=0)
    left.axhline(ef.solve(graph, "MAR", "exact").marginals[12][1], color="black", lw=1, ls="--", label="exact")
    styles = styles_of(SOLVERS)
    for damping, solver in ((0.0, "bp"), (0.5, "bp(damping=0.5)")):
        colour, marker, _ = styles[solver]
        left.plot(beliefs_by_step(damping), color=colour, marker=marker, ms=4, label=f"damping {damping:g}")
    left.set(xlabel="iterations", ylabel="probability of +1", ylim=(0, 1), title="one spin of the grid of `make demo`")
    left.legend()
    for solver, values in measured().items():
        colour, marker, _ = styles[solver]
        right.plot(STRENGTHS, values, color=colour, marker=marker, ms=5, label=solver)
    right.set(xlabel="strength of couplings", ylabel="mean KL", yscale="log", title="30 spin glasses of 8 x 8 each")
    right.grid(alpha=0.3)
    right.legend()
    return figure


if __name__ == "__main__":
    rcParams["svg.hashsalt"] = "equifactor"  # the same file every time
    draw().savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
