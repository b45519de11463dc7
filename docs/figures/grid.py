"""Draw docs/figures/grid.svg: the marginals of a 12x12 spin glass, and the errors of three solvers at every spin.

`python docs/figures/grid.py`    a few seconds on one core
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib import rcParams
from matplotlib.figure import Figure

import equifactor as ef

SIZE, SEED = 12, 0
SOLVERS = {
    "bp": "belief propagation",
    "bp(damping=0.5)": "the same, damped",
    "fe-net": "FE-Net, as shipped",
}


def draw() -> Figure:
    """Draw four panels: exact probabilities, then absolute errors."""
    graph = ef.generators.ising_grid(SIZE, SIZE, seed=SEED)
    exact = ef.solve(graph, "MAR", "exact")
    figure = Figure(figsize=(11.0, 3.3), layout="constrained")
    panels = figure.subplots(1, 1 + len(SOLVERS))
    picture = panels[0].imshow(_ones(exact), cmap="RdBu_r", vmin=0.0, vmax=1.0)
    panels[0].set_title("exact probability of +1", fontsize=11)
    figure.colorbar(picture, ax=panels[0], location="bottom", shrink=0.8)
    for axes, (solver, title) in zip(panels[1:], SOLVERS.items(), strict=True):
        found = ef.solve(graph, "MAR", solver)
        error = np.abs(_ones(found) - _ones(exact))
        picture = axes.imshow(error, cmap="magma_r", vmin=0.0, vmax=0.5)
        axes.set_title(f"{title}\nmean error {error.mean():.3f}, largest {error.max():.2f}", fontsize=11)
    figure.colorbar(picture, ax=panels[1:], location="bottom", shrink=0.5, label="error of the probability")
    for axes in panels:
        axes.set_xticks([])
        axes.set_yticks([])
    return figure


def _ones(result: ef.Result) -> np.ndarray:
    return np.array([p[1] for p in result.marginals]).reshape(SIZE, SIZE)


if __name__ == "__main__":
    rcParams["svg.hashsalt"] = "equifactor"  # the same file every time
    draw().savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
