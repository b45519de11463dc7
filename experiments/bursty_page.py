"""The page of the experiment on bursty noise: tables of bit and word error rates, and the figure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from equifactor.show.palette import styles_of
from equifactor.show.text_tables import markdown
from experiments.bursty_experiment import BurstyExperiment
from experiments.report import mean, mean_over_seeds
from experiments.run_store import Row


@dataclass(frozen=True)
class ErrorRate:
    """A rate and its standard error."""

    rate: float
    error: float

    def __str__(self) -> str:
        return f"{self.rate:.2g} ± {self.error:.1g}" if self.rate else "0"


def bit_rate(cell: Row, message: int) -> ErrorRate:
    """Return the rate of wrong message bits, for `message` bits per word.

    Words are independent. The bits of a word are not, so the standard error is taken over words.
    """
    words = cell["words"]
    each = cell["message_errors"] / words
    spread = max(0.0, cell["message_squares"] / words - each * each) / words
    return ErrorRate(each / message, math.sqrt(spread) / message)


def word_rate(cell: Row) -> ErrorRate:
    """Return the rate of wrong words, with the binomial standard error."""
    rate = cell["word_errors"] / cell["words"]
    return ErrorRate(rate, math.sqrt(rate * (1.0 - rate) / cell["words"]))


def joined(rates: Sequence[ErrorRate]) -> ErrorRate:
    """Return the mean over seeds."""
    return ErrorRate(*mean_over_seeds([r.rate for r in rates], [r.error for r in rates]))


Rates = dict[tuple[float, float], ErrorRate]  # By SNR and strength of bursts.


def rates_of(
    experiment: BurstyExperiment, rows: Sequence[Row], *, words: bool = False, field: str = "cells"
) -> dict[str, Rates]:
    """Return bit or word error rates of every line on the code of an experiment, the mean over its seeds."""
    message = experiment.code().dimension
    found: dict[str, dict[tuple[float, float], list[ErrorRate]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for cell in row.get(field, ()) if row.get("at", "") == experiment.at else ():
            rate = word_rate(cell) if words else bit_rate(cell, message)
            found[row["name"]][cell["snr_db"], cell["burst_std"]].append(rate)
    return {name: {at: joined(same) for at, same in cells.items()} for name, cells in found.items()}


def bursty_page(experiment: BurstyExperiment, rows: Sequence[Row], tuned: Sequence[Row]) -> str:
    """Return all tables."""
    e = experiment
    about = f"A regular code of {e.n} bits; a burst hits a bit with probability {e.noise.burst_probability:g}."
    parts = [f"# {e.title}", "", about]
    bits, words = rates_of(e, rows), rates_of(e, rows, words=True)
    parts += ["", "## Mean bit error rate over all SNRs, by strength of bursts", "", _means(e, bits)]
    for title, rates in (("Bit error rate of the message", bits), ("Word error rate", words)):
        for burst in e.noise.burst_std:
            parts += ["", f"## {title}, burst strength {burst:g}", "", _table(e, rates, burst)]
    twice = rates_of(e, rows, field="twice")
    if twice:
        parts += ["", "## Mean bit error rate after twice the steps of training, fewer words", "", _means(e, twice)]
    for other in e.others:
        there = e.on(other)
        found = rates_of(there, rows)
        if found:
            parts += ["", f"## {other.name}: mean bit error rate by strength of bursts", "", _means(there, found)]
            found = rates_of(there, rows, words=True)
            parts += ["", f"## {other.name}: mean word error rate by strength of bursts", "", _means(there, found)]
    trained = [row for row in rows if "updates" in row]
    if trained:
        parts += ["", "## Training", "", _training(trained)]
    if tuned:
        parts += ["", "## Learning rates, validation loss", "", _tuning(tuned)]
    return "\n".join(parts) + "\n"


def _means(experiment: BurstyExperiment, rates: dict[str, Rates]) -> str:
    noise = experiment.noise
    table = [["method", *(f"{burst:g}" for burst in noise.burst_std), "all"]]
    for name, cells in rates.items():
        values = [mean([cells[snr, burst].rate for snr in noise.snr_db]) for burst in noise.burst_std]
        table.append([name, *(f"{v:.3g}" for v in (*values, mean(values)))])
    return markdown(table)


def _table(experiment: BurstyExperiment, rates: dict[str, Rates], burst: float) -> str:
    snrs = experiment.noise.snr_db
    table = [["method", *(f"{snr:g} dB" for snr in snrs)]]
    table += [[name, *(str(cells[snr, burst]) for snr in snrs)] for name, cells in rates.items()]
    return markdown(table)


def _training(rows: Sequence[Row]) -> str:
    titles = ["network", "seed", "parameters", "learning rate", "gradient steps", "words", "ms a step", "wrong bits"]
    table = [titles]
    for row in rows:
        steps = f"{row['updates']:,}" + f" of {row['planned']:,}" * (row["updates"] < row["planned"])
        numbers = [f"{row['lr']:g}", steps, f"{row['words']:,}", f"{1e3 * row['each']:.0f}"]
        table.append(
            [row["name"], str(row["seed"]), f"{row['parameters']:,}", *numbers, f"{row['validation_wrong']:.4f}"]
        )
    return markdown(table)


def _tuning(rows: Sequence[Row]) -> str:
    lrs = [t["lr"] for t in rows[0]["tried"]]
    table = [["network", *(f"{lr:g}" for lr in lrs)]]
    for row in rows:
        losses = [math.inf if isinstance(t["loss"], (str, type(None))) else t["loss"] for t in row["tried"]]
        table.append([row["name"], *(f"**{v:.4f}**" if v == min(losses) else f"{v:.4f}" for v in losses)])
    return markdown(table)


def draw_bursty(experiment: BurstyExperiment, rows: Sequence[Row], path: Path) -> None:
    """Draw bit error rates against the SNR, one panel for each strength of bursts."""
    from matplotlib.figure import Figure

    rates, noise = rates_of(experiment, rows), experiment.noise
    trained = {row["name"] for row in rows if "updates" in row}
    styles = styles_of(rates)
    figure = Figure(figsize=(12, 7), layout="constrained")
    panels = figure.subplots(2, -(-len(noise.burst_std) // 2), sharex=True, sharey=True, squeeze=False).flat
    for panel, burst in zip(panels, noise.burst_std, strict=False):
        for name, cells in rates.items():
            colour, marker, _ = styles[name]
            values = [cells[snr, burst] for snr in noise.snr_db]
            panel.errorbar(
                noise.snr_db, [v.rate or math.nan for v in values], [v.error for v in values], label=name,
                color=colour, marker=marker, markersize=4, capsize=2,
                linestyle="-" if name in trained else "--", linewidth=1.6 if name in trained else 1.0,
            )  # fmt: skip
        panel.set(yscale="log", title=f"burst strength {burst:g}", xlabel="SNR, dB", ylabel="bit error rate")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)
    figure.savefig(path, dpi=100)
