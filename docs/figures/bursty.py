"""Draw docs/figures/bursty.svg: bit error rates under bursty noise, from experiments/bursty/results.json.

python docs/figures/bursty.py    in a checkout of the repository; nothing is run
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from experiments.bursty_page import rates_of  # noqa: E402 - experiments are not installed
from experiments.experiment_config import load_bursty  # noqa: E402

# Lines of the figure: style and label, in the order of the legend.
SHOWN = {
    "sum-product, 10 iterations": ("k--", "sum-product"),
    "sum-product, best clip, 10 iterations": ("b:", "sum-product, ratios clipped"),
    "sum-product, knows of bursts, 10 iterations": ("g-.", "sum-product that knows of bursts"),
    "FE-NBP": ("C1o-", "FE-NBP"),
    "FE-Net": ("C3s-", "FE-Net"),
    "NEBP": ("C4^-", "NEBP"),
    "FGNN": ("C7v-", "FGNN"),
}


def main() -> None:
    """Draw the figure."""
    matplotlib.rcParams["svg.hashsalt"] = "bursty"
    experiment = load_bursty("bursty")
    path = HERE.parents[1] / "experiments" / "bursty" / "results.json"
    rates = rates_of(experiment, json.loads(path.read_text(encoding="utf-8"))["runs"])
    snrs, bursts = experiment.noise.snr_db, (0, 1, 3, 5)
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    for panel, burst in zip(figure.subplots(1, len(bursts), sharey=True), bursts, strict=True):
        for name, (style, label) in SHOWN.items():
            panel.plot(snrs, [rates[name][snr, burst].rate for snr in snrs], style, label=label, markersize=4)
        panel.set(yscale="log", title=f"bursts of strength {burst}", xlabel="SNR, dB")
        panel.grid(alpha=0.3)
    figure.axes[0].set_ylabel("bit error rate")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(HERE / "bursty.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
