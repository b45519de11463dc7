"""The page of an experiment on marginals: tables of KL and RMSE, in Markdown and LaTeX."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from equifactor.show.text_tables import latex, markdown
from experiments.marginal_experiment import MarginalExperiment
from experiments.report import mean, mean_over_seeds
from experiments.run_store import Row


@dataclass(frozen=True)
class SeedMean:
    """One row of a table: the mean over the seeds of one line and training size."""

    name: str
    size: int | None
    seeds: int
    kl: float
    kl_stderr: float
    rmse: float
    rmse_stderr: float
    seconds: float


def seed_means(rows: Sequence[Row]) -> list[SeedMean]:
    """Return one row for all runs that differ only in the seed.

    The standard error combines the standard error over test graphs and the standard error over seeds. The test graphs
    are the same for every seed, so the first does not shrink with more seeds.
    """
    groups: dict[tuple[str, int | None], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["name"], row["size"]].append(row)
    return [
        SeedMean(
            name, size, len(same), *_joined(same, "kl"), *_joined(same, "rmse"), mean([r["seconds"] for r in same])
        )
        for (name, size), same in groups.items()
    ]


def marginal_page(experiment: MarginalExperiment, rows: Sequence[Row], tuned: Sequence[Row]) -> str:
    """Return all tables that the experiment has."""
    tables = [size_tables(experiment, seed_means(rows))]
    if experiment.families:
        tables.append(families_table(experiment, rows))
    if tuned:
        tables.append(tuning_table(tuned))
    if experiment.step_factors:
        tables.append(steps_table(rows))
    return "\n".join(tables)


def size_tables(experiment: MarginalExperiment, means: Sequence[SeedMean]) -> str:
    """Return one table per training size; solvers without training are in each table."""
    parts = [f"# {experiment.title}", "", f"Test graphs: `{experiment.test}`. KL and RMSE +- one standard error."]
    for size in experiment.sizes:
        table = [["method", "KL", "RMSE", "seeds", "seconds", "published KL, RMSE"]]
        for m in sorted((m for m in means if m.size in (None, size)), key=lambda m: -m.kl):
            known = experiment.published.get(m.name, {})
            published = f"{known['kl']:.4f}, {known['rmse']:.4f}" if known else ""
            kl, rmse = f"{m.kl:.5f} +- {m.kl_stderr:.5f}", f"{m.rmse:.4f} +- {m.rmse_stderr:.4f}"
            table.append([m.name, kl, rmse, "" if m.size is None else str(m.seeds), f"{m.seconds:.0f}", published])
        parts += ["", f"## {size:,} training graphs", "", markdown(table)]
    return "\n".join(parts) + "\n"


def families_table(experiment: MarginalExperiment, rows: Sequence[Row]) -> str:
    """Return a table of KL, the mean over seeds, with one column per family; the best KL of a column is bold."""
    names = [f.name for f in experiment.families]
    groups: dict[tuple[str, int | None], list[Row]] = defaultdict(list)
    for row in rows:
        if "families" in row:
            groups[row["name"], row["size"]].append(row["families"])
    cells = {
        key: [mean([s[f]["kl"] for s in same]) if same[0][f]["kl"] is not None else None for f in names]
        for key, same in groups.items()
    }
    best = [min((v for c in cells.values() if (v := c[n]) is not None), default=None) for n in range(len(names))]
    table = [["method", *names]]
    for (name, _), values in cells.items():
        shown = ["" if v is None else f"**{v:.3g}**" if v == best[n] else f"{v:.3g}" for n, v in enumerate(values)]
        table.append([name, *shown])
    return f"## Other families of graphs, KL\n\n{markdown(table)}\n"


def steps_table(rows: Sequence[Row]) -> str:
    """Return a table of KL, the mean over seeds, with one column per number of steps."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if "steps" in row:
            groups[row["name"]].append(row["steps"])
    counts = sorted({int(n) for same in groups.values() for n in same[0]})
    table = [["method", *map(str, counts)]]
    for name, same in groups.items():
        values = [f"{mean([s[str(n)]['kl'] for s in same]):.4g}" if str(n) in same[0] else "" for n in counts]
        table.append([name, *values])
    return f"## After more and fewer steps, KL\n\n{markdown(table)}\n"


def tuning_table(tuned: Sequence[Row]) -> str:
    """Return a table of the validation KL of each learning rate; the best KL is bold, and its rate was used."""
    groups: dict[str, dict[float, float]] = defaultdict(dict)
    for row in tuned:
        kl = row["validation_kl"]
        groups[row["name"]][row["settings"]["lr"]] = math.inf if kl is None else kl
    lrs = sorted({lr for found in groups.values() for lr in found})
    table = [["method", *(f"{lr:g}" for lr in lrs)]]
    for name, found in groups.items():
        best = min(found.values())
        cells = [f"**{v:.4g}**" if (v := found.get(lr)) == best else "" if v is None else f"{v:.4g}" for lr in lrs]
        table.append([name, *cells])
    return f"## Learning rates, validation KL\n\n{markdown(table)}\n"


def marginal_latex(experiment: MarginalExperiment, means: Sequence[SeedMean]) -> str:
    """Return the tables of KL and RMSE in LaTeX, ready to be included."""
    rows, titles = [["method", "KL", "RMSE"]], {}
    for size in experiment.sizes:
        titles[len(rows)] = f"{size:,} training graphs"
        for m in sorted((m for m in means if m.size in (None, size)), key=lambda m: -m.kl):
            kl, rmse = f"{m.kl:.4f} \\pm {m.kl_stderr:.4f}", f"{m.rmse:.4f} \\pm {m.rmse_stderr:.4f}"
            rows.append([m.name, f"${kl}$", f"${rmse}$"])
    return latex(rows, titles=titles) + "\n"


def _joined(rows: Sequence[Row], measure: str) -> tuple[float, float]:
    """Return the mean over seeds, and its standard error."""
    return mean_over_seeds([row[measure] for row in rows], [row[f"{measure}_stderr"] for row in rows])
