"""The model of trust in `fe-net` (`solvers/learned/trust_model.py`): collecting its rows, and fitting it.

A row is one graph with exact marginals: the marginals of the runs of `network_trust.RUNS`, and the features of
its variables. The graphs are those of `trust_graphs.py` and the public models at even places; models at odd places
are not used. The loss is the total variation of the mean, relative to the better of two runs of BP, plus a small share
of KL, plus the pinball loss of the error of a variable, whose minimum is the quantile `SHARE`.

Each member of the model is fitted without one fold of the families. On a family that none of them has seen they differ
more, and their distance is added to the predicted error. `unseen_table` measures this: each fold is answered by
networks that are fitted without it and without one more fold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from equifactor import FactorGraph, Status, solve
from equifactor.base.typing import FloatArray, IntArray
from equifactor.data import collection
from equifactor.graph import compile
from equifactor.solvers.learned.network_trust import free_values
from equifactor.solvers.learned.trust_features import features
from equifactor.solvers.learned.trust_model import ERROR_SCALE, ERROR_START, FURTHEST, SHARE, TrustModel
from experiments.trust_graphs import FAMILIES, draw

RUNS = (
    "bp(damping=0.5)", "bp(damping=0.9, iterations=50)", "bp(damping=0.5, iterations=1000)",
    "fe-net(untrained, iterations=100)", "fe-net(alone)",
)  # fmt: skip
_MEMORY = 0.06  # GiB for exact marginals of random graphs, so that a graph takes milliseconds.
_LARGEST = 3000  # Variables of a public model, so that it takes seconds.
_HIDDEN = 24  # Units of each hidden layer. 12 and 24 differ by 2 % on families that are left out.
_FLOOR = 0.005  # Total variation that is added to that of BP, so that graphs on which BP is exact do not dominate.
_KL_SHARE, _ERROR_SHARE = 0.4, 0.1  # Shares of KL and of the pinball loss in the loss. KL 0.1: worse by KL on spins.
_WORSE = 1.0  # What total variation above that of the best run of BP costs in addition.
_MOST_LOSS = 20.0  # The largest loss of a variable.
_FULL_FAMILY = 12  # A family of fewer graphs gets less weight, since its graphs would be learnt by heart.
_SAMPLE = 40  # Variables of a graph that are used in the fit.
_BATCH, _STEPS = 3000, 1200  # Variables in a batch, and gradient steps.
_BP_RUNS = 3  # The first runs are those of BP.
# Families that are left out together. No fold has two families of one kind, such as pedigrees and linkage.
FOLDS = (
    ("Promedus", "labels", "two layers", "hard constraints"), ("linkage", "colourings", "diagnosis", "joint chains"),
    ("Pedigree", "sparse pairs", "long gates"), ("CSP", "or gates", "relational"), ("DBN", "pedigrees", "circuits"),
    ("Grids", "random tables", "two slices"), ("Segmentation", "formulas", "large pedigrees", "Alchemy"),
    ("ObjectDetection", "Bayesian networks", "spins", "dense pairs"),
)  # fmt: skip


@dataclass(frozen=True)
class TrustRow:
    """One graph: features [V, D], marginals of the runs [K, X] and exact ones [X], and the first state [V + 1]."""

    family: str
    odd: bool
    features: FloatArray
    runs: FloatArray
    exact: FloatArray
    var_ptr: IntArray


def trust_row(graph: FactorGraph, exact: FloatArray, family: str, odd: bool) -> TrustRow | None:
    """Return the row of a graph with exact marginals [all states], or None if a run has no answer."""
    results = [solve(graph, "MAR", text) for text in RUNS]
    if not all(hasattr(r, "marginals") for r in results) or not len(graph.free_vars):
        return None
    flat = compile([graph])
    ptr = results[0].marginals.ptr
    runs = [free_values(graph, r.marginals.values, ptr) for r in results]
    change = np.array([[float(r.stats.get("change", 0.0)) for r in results]])
    found = features(flat, runs, np.nan_to_num(change, posinf=1.0))
    return TrustRow(family, odd, found, np.array(runs), free_values(graph, exact, ptr), np.asarray(flat.var_ptr))


def random_rows(family: str, numbers: range) -> list[TrustRow]:
    """Return the rows of some random graphs of a family; graphs without a quick exact answer are left out."""
    rows = []
    for number in numbers:
        graph = draw(family, number)
        exact = solve(graph, "MAR", f"exact(memory_limit={_MEMORY})")
        if exact.status is Status.EXACT:
            rows.append(trust_row(graph, exact.marginals.values, family, number % 2 == 1))
    return [row for row in rows if row is not None]


def public_rows(folder: str) -> list[TrustRow]:
    """Return the rows of the public models, with the places of `benchmarks.against_bp`."""
    rows = []
    for place, instance in enumerate(sorted(collection(folder, ["MAR"]), key=lambda i: (i.family, i.name))):
        graph, exact = instance.graph(), instance.marginals()
        if graph.num_vars <= _LARGEST and exact is not None:
            rows.append(trust_row(graph, exact.values, instance.family, place % 2 == 1))
    return [row for row in rows if row is not None]


def collect(count: int, jobs: int, data: str | None) -> list[TrustRow]:
    """Return rows of `count` random graphs of each family, and of the public models in the folder `data`."""
    with ProcessPoolExecutor(jobs) as pool:
        parts = [pool.submit(random_rows, family, range(k, count, jobs)) for family in FAMILIES for k in range(jobs)]
        public = pool.submit(public_rows, data) if data else None
        rows = [row for part in parts for row in part.result()]
        return rows + (public.result() if public else [])


class TrustNetwork(nn.Module):
    """One member of the model of trust in torch."""

    def __init__(self, mean: Tensor, scale: Tensor, runs: int) -> None:
        super().__init__()
        self.mean, self.scale = mean, scale
        self.a, self.b = nn.Linear(len(mean), _HIDDEN), nn.Linear(_HIDDEN, _HIDDEN)
        self.c = nn.Linear(_HIDDEN, runs + 1)
        with torch.no_grad():
            self.c.weight *= 0.1

    def forward(self, given: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights [V, K] of the runs and the log of the error [V] from features [V, D]."""
        x = ((given - self.mean) / self.scale).clamp(-FURTHEST, FURTHEST)
        found = self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))
        return torch.softmax(found[:, :-1], 1), ERROR_SCALE * found[:, -1] + ERROR_START


def model_of(members: Sequence[TrustNetwork]) -> TrustModel:
    """Return the model of several members, which have the same means and scales."""
    own = [{k: v.detach().numpy() for k, v in member.state_dict().items()} for member in members]
    layers = tuple((np.stack([m[f"{n}.weight"] for m in own]), np.stack([m[f"{n}.bias"] for m in own])) for n in "abc")
    return TrustModel(members[0].mean.numpy(), members[0].scale.numpy(), layers)


class TrustSample:
    """Variables of many graphs as tensors: [N, D] features, [N, K, C] runs and [N, C] exact marginals."""

    def __init__(self, rows: Sequence[TrustRow], most: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        card = max(int(np.diff(r.var_ptr).max()) for r in rows)
        features, runs, exact, self.graph = [], [], [], []
        for number, row in enumerate(rows):
            size = np.diff(row.var_ptr)
            chosen = np.sort(rng.permutation(len(size))[:most])
            place = np.minimum(row.var_ptr[chosen, None] + np.arange(card), len(row.exact) - 1)
            there = np.arange(card) < size[chosen, None]
            features.append(row.features[chosen])
            runs.append((row.runs[:, place] * there).transpose(1, 0, 2))
            exact.append(row.exact[place] * there)
            self.graph += [number] * len(chosen)
        self.features, self.runs, self.exact = (
            torch.tensor(np.concatenate(part), dtype=torch.float32) for part in (features, runs, exact)
        )
        tv = [np.abs(r.runs[:_BP_RUNS] - r.exact).sum(1) / 2 / (len(r.var_ptr) - 1) for r in rows]
        best = np.array([v[:2].min() for v in tv])
        self.bp = torch.tensor(best[self.graph], dtype=torch.float32)  # [N] of the better BP on the whole graph.
        self.families = [rows[g].family for g in self.graph]
        count = Counter(r.family for r in rows)
        each = Counter(self.graph)
        self.weight = np.array(
            [
                min(1.0, count[f] / _FULL_FAMILY) / (count[f] * each[g])
                for f, g in zip(self.families, self.graph, strict=True)
            ]
        )  # Families have equal weights, except small ones.

    def loss(self, network: TrustNetwork, chosen: IntArray) -> Tensor:
        """Return the loss of some variables."""
        n = torch.as_tensor(chosen)
        share, log_error = network(self.features[n])
        runs, exact, bp = self.runs[n], self.exact[n], self.bp[n]
        found = (share[:, :, None] * runs).sum(1)
        variation = (found - exact).abs().sum(1) / 2
        own = ((runs[:, :_BP_RUNS] - exact[:, None]).abs().sum(2) / 2).amin(1)
        worse = torch.relu(variation / (torch.maximum(own, bp) + _FLOOR) - 1.0).clamp(max=_MOST_LOSS)
        kl = (exact * ((exact + 1e-4) / (found + 1e-4)).log()).sum(1)
        beyond = ((found - exact).abs().amax(1).detach() + 1e-6).log() - log_error
        pinball = torch.maximum(SHARE * beyond, (SHARE - 1) * beyond)
        relative = (variation / (bp + _FLOOR)).clamp(max=_MOST_LOSS) + _KL_SHARE * kl / (bp**1.5 + _FLOOR)
        return (relative + _WORSE * worse + _ERROR_SHARE * pinball).mean()


def fit_trust(sample: TrustSample, folds: Sequence[Sequence[str]], seed: int = 0, steps: int = _STEPS) -> TrustModel:
    """Return the model whose members are each fitted without the families of one of the folds."""
    mean, scale = sample.features.mean(0), sample.features.std(0) + 1e-3
    return model_of([_fit_member(sample, fold, (mean, scale), seed + k, steps) for k, fold in enumerate(folds)])


def _fit_member(
    sample: TrustSample, left_out: Sequence[str], scaling: tuple[Tensor, Tensor], seed: int, steps: int
) -> TrustNetwork:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    total = np.cumsum(np.where(np.isin(sample.families, left_out), 0.0, sample.weight))
    network = TrustNetwork(*scaling, len(RUNS))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps)
    for _ in range(steps):
        drawn = np.searchsorted(total, rng.random(_BATCH) * total[-1], side="right")
        loss = sample.loss(network, np.minimum(drawn, len(total) - 1))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return network


def unseen_models(sample: TrustSample, seed: int, steps: int = _STEPS) -> dict[str, TrustModel]:
    """Return a model for each family, whose members are fitted without its fold and without one more fold."""
    mean, scale = sample.features.mean(0), sample.features.std(0) + 1e-3
    pairs = {
        (a, b): _fit_member(sample, [*FOLDS[a], *FOLDS[b]], (mean, scale), seed, steps)
        for a, b in combinations(range(len(FOLDS)), 2)
    }
    models = [model_of([network for pair, network in pairs.items() if a in pair]) for a in range(len(FOLDS))]
    return {family: model for fold, model in zip(FOLDS, models, strict=True) for family in fold}


def trust_table(models: Mapping[str, TrustModel], rows: Sequence[TrustRow]) -> list[dict[str, object]]:
    """Return a line for each family and half: total variation of the runs and of the mean, and coverage."""
    lines: list[dict[str, object]] = []
    for family, odd in sorted({(r.family, r.odd) for r in rows}):
        own = [r for r in rows if (r.family, r.odd) == (family, odd)]
        measured = np.mean([_measured(models[family], row) for row in own], axis=0)
        *runs, found, covered = measured.tolist()
        lines.append(
            {"family": family, "places": "odd" if odd else "even", "graphs": len(own),
             **{text: f"{v:.4f}" for text, v in zip(RUNS, runs, strict=True)},
             "fe-net": f"{found:.4f}", "90 % errors hold": f"{covered:.3f}"}
        )  # fmt: skip
    return lines


def _measured(model: TrustModel, row: TrustRow) -> list[float]:
    """Return the total variation of each run and of the mean, and the share of variables whose error holds."""
    variable = np.repeat(np.arange(len(row.var_ptr) - 1), np.diff(row.var_ptr))
    mean, error, _ = model.combined(row.features, [*row.runs], variable)
    far = np.maximum.reduceat(np.abs(mean - row.exact), row.var_ptr[:-1])
    variations = [float(np.abs(p - row.exact).sum()) / 2 / len(error) for p in (*row.runs, mean)]
    return [*variations, float(np.mean(far <= error + 1e-6))]


def make_trust(
    out: Path, count: int, jobs: int, data: str | None, seed: int, unseen: bool
) -> list[list[dict[str, object]]]:
    """Collect rows, fit the model on random graphs and even places, write its file, and return tables.

    The first table is about the public models. With `unseen` the second one has each family answered by a model that
    is fitted without it.
    """
    torch.set_num_threads(1)
    rows = collect(count, jobs, data)
    sample = TrustSample([r for r in rows if r.family in FAMILIES or not r.odd], _SAMPLE, seed)
    model = fit_trust(sample, FOLDS, seed)
    arrays: dict[str, Any] = dict(model.arrays())
    np.savez_compressed(out, **arrays)
    shown = [r for r in rows if r.family not in FAMILIES] or rows
    tables = [trust_table(dict.fromkeys({r.family for r in rows}, model), shown)]
    return [*tables, trust_table(unseen_models(sample, seed), rows)] if unseen else tables
