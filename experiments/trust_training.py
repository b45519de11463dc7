"""The model of trust in `fe-net` (`solvers/learned/trust_model.py`): collecting its rows, and fitting it.

A row is one graph with exact marginals: the marginals of the four runs of `network_trust.RUNS`, and the features of
its variables. The graphs are those of `trust_graphs.py` and the public models at even places; models at odd places
are not used. The loss is the total variation of the mean, relative to the better of two runs of BP, plus a small share
of KL, plus the pinball loss of the error of a variable, whose minimum is the quantile `SHARE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
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
from equifactor.solvers.learned.trust_model import ERROR_SCALE, ERROR_START, FURTHEST, SHARE
from experiments.trust_graphs import FAMILIES, draw

RUNS = ("bp(damping=0.5)", "bp(damping=0.9, iterations=50)", "fe-net(untrained, iterations=100)", "fe-net(alone)")
_MEMORY = 0.06  # GiB for exact marginals of random graphs, so that a graph takes milliseconds.
_LARGEST = 3000  # Variables of a public model, so that it takes seconds.
_HIDDEN = 24  # Units of each hidden layer. 24 was tried alone.
_FLOOR = 0.005  # Total variation that is added to that of BP, so that graphs on which BP is exact do not dominate.
_KL_SHARE, _ERROR_SHARE = 0.1, 0.1  # Shares of KL and of the pinball loss in the loss.
# Networks of the mean. One network has a total variation of .055 on CSP at odd places and .0095 on Segmentation. Five
# networks, each without a fifth of the families, have .069 on Promedus at even places, where one has .059.
_MEMBERS = 4
_FULL_FAMILY = 12  # A family of fewer graphs gets less weight, since its graphs would be learnt by heart.
_BATCHES, _BATCH, _STEPS = 60, 200, 1200  # Batches that repeat, graphs per batch, gradient steps.


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
    """The model of trust in torch."""

    def __init__(self, given: FloatArray, runs: int) -> None:
        super().__init__()
        self.mean, self.scale = (torch.tensor(x, dtype=torch.float32) for x in (given.mean(0), given.std(0) + 1e-3))
        self.a, self.b = nn.Linear(given.shape[1], _HIDDEN), nn.Linear(_HIDDEN, _HIDDEN)
        self.c = nn.Linear(_HIDDEN, runs + 1)
        with torch.no_grad():
            self.c.weight *= 0.1

    def forward(self, given: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights [V, K] of the runs and the log of the error [V] from features [V, D]."""
        x = ((given - self.mean) / self.scale).clamp(-FURTHEST, FURTHEST)
        found = self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))
        return torch.softmax(found[:, :-1], 1), ERROR_SCALE * found[:, -1] + ERROR_START


class TrustMean(nn.Module):
    """The mean of several networks, as `TrustModel` computes it."""

    def __init__(self, members: Sequence[TrustNetwork]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.mean, self.scale = members[0].mean, members[0].scale

    def forward(self, given: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights [V, K] of the runs and the log of the error [V] from features [V, D]."""
        found = [member(given) for member in self.members]
        return torch.stack([share for share, _ in found]).mean(0), torch.stack([error for _, error in found]).mean(0)

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the arrays of the file."""
        layers = [{k: v.detach().numpy() for k, v in member.state_dict().items()} for member in self.members]
        stacked = {name: np.stack([own[name] for own in layers]) for name in layers[0]}
        return {"mean": self.mean.numpy(), "scale": self.scale.numpy(), **stacked}


class TrustBatch:
    """Rows as tensors."""

    def __init__(self, rows: Sequence[TrustRow]) -> None:
        sizes = [len(r.var_ptr) - 1 for r in rows]
        self.features = torch.tensor(np.concatenate([r.features for r in rows]), dtype=torch.float32)
        self.runs = torch.tensor(np.concatenate([r.runs for r in rows], axis=1), dtype=torch.float32)
        self.exact = torch.tensor(np.concatenate([r.exact for r in rows]), dtype=torch.float32)
        cards = np.concatenate([np.diff(r.var_ptr) for r in rows])
        self.variable = torch.tensor(np.repeat(np.arange(sum(sizes)), cards))
        self.graph = torch.tensor(np.repeat(np.arange(len(rows)), sizes))
        self.size = torch.tensor(sizes, dtype=torch.float32)
        self.bp = torch.stack([self.variation(run) for run in self.runs[:2]]).amin(0)  # [G] of the better BP

    def per_variable(self, values: Tensor) -> Tensor:
        """Return the sums [V] of values [X]."""
        return torch.zeros(len(self.graph)).index_add(0, self.variable, values)

    def per_graph(self, values: Tensor) -> Tensor:
        """Return the means [G] of values [V]."""
        return torch.zeros(len(self.size)).index_add(0, self.graph, values) / self.size

    def variation(self, found: Tensor) -> Tensor:
        """Return the mean total variation [G] of marginals [X]."""
        return self.per_graph(self.per_variable((found - self.exact).abs()) / 2)

    def mean(self, share: Tensor) -> Tensor:
        """Return the mean [X] of the runs with weights [V, K]."""
        return (share[self.variable].T * self.runs).sum(0)

    def largest(self, found: Tensor) -> Tensor:
        """Return the largest error [V] of an entry of each variable, of marginals [X]."""
        error = (found - self.exact).abs().detach()
        return torch.zeros(len(self.graph)).scatter_reduce(0, self.variable, error, "amax")


def loss_of(network: TrustNetwork, batch: TrustBatch) -> Tensor:
    """Return the loss of a batch."""
    share, log_error = network(batch.features)
    found = batch.mean(share)
    variation = (batch.variation(found) / (batch.bp + _FLOOR)).clamp(max=20).mean()
    kl = batch.per_graph(batch.per_variable(batch.exact * ((batch.exact + 1e-4) / (found + 1e-4)).log()))
    beyond = (batch.largest(found) + 1e-6).log() - log_error
    pinball = batch.per_graph(torch.maximum(SHARE * beyond, (SHARE - 1) * beyond))
    return variation + _KL_SHARE * (kl / (batch.bp**1.5 + _FLOOR)).mean() + _ERROR_SHARE * pinball.mean()


def fit_trust(rows: Sequence[TrustRow], seed: int = 0, steps: int = _STEPS) -> TrustMean:
    """Return the fitted model, the mean of networks that start from different seeds and draw other batches."""
    return TrustMean([_fit_member(rows, seed + k, steps) for k in range(_MEMBERS)])


def _fit_member(rows: Sequence[TrustRow], seed: int, steps: int) -> TrustNetwork:
    """Return one fitted network; families have equal weights in a batch, but for small ones."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    families = {name: [r for r in rows if r.family == name] for name in sorted({r.family for r in rows})}
    share = {name: _BATCH / len(families) * min(1.0, len(own) / _FULL_FAMILY) for name, own in families.items()}
    batches = [
        TrustBatch(
            [own[k] for n, own in families.items() for k in rng.integers(len(own), size=max(1, round(share[n])))]
        )
        for _ in range(_BATCHES)
    ]
    network = TrustNetwork(np.concatenate([r.features for r in rows]), len(RUNS))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps)
    for step in range(steps):
        loss = loss_of(network, batches[step % len(batches)])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return network


def trust_table(network: TrustMean, rows: Sequence[TrustRow]) -> list[dict[str, object]]:
    """Return a line for each family and half: total variation of the runs and of the mean, and coverage."""
    lines: list[dict[str, object]] = []
    for family, odd in sorted({(r.family, r.odd) for r in rows}):
        batch = TrustBatch([r for r in rows if (r.family, r.odd) == (family, odd)])
        with torch.no_grad():
            share, log_error = network(batch.features)
            found = batch.mean(share)
        runs = {text: f"{float(batch.variation(run).mean()):.4f}" for text, run in zip(RUNS, batch.runs, strict=True)}
        covered = (batch.largest(found) <= log_error.exp() + 1e-6).float().mean()
        lines.append(
            {"family": family, "places": "odd" if odd else "even", "graphs": len(batch.size), **runs,
             "fe-net": f"{float(batch.variation(found).mean()):.4f}", "90 % errors hold": f"{float(covered):.3f}"}
        )  # fmt: skip
    return lines


def make_trust(out: Path, count: int, jobs: int, data: str | None, seed: int) -> list[dict[str, object]]:
    """Collect rows, fit the model on random graphs and even places, write its file, and return the table."""
    torch.set_num_threads(1)
    rows = collect(count, jobs, data)
    network = fit_trust([r for r in rows if r.family in FAMILIES or not r.odd], seed)
    arrays: dict[str, Any] = dict(network.tensors())
    np.savez_compressed(out, **arrays)
    return trust_table(network, [r for r in rows if r.family not in FAMILIES] or rows)
