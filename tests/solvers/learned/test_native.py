"""The networks in NumPy against the same networks in torch, in plain NumPy and by compiled loops."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from equifactor import AtMost, Clause, FactorGraph, NoisyOr, Parity, Potts, SparseTable, TruncatedLinear, solve
from equifactor.generators import ising_grid, potts_grid, random_graph
from equifactor.solvers.learned.learned_solver import _at
from equifactor.solvers.learned.network import build
from equifactor.solving.registry import solver_class

KINDS = ("fe-net", "fe-nbp", "fe-gnn")
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "fe-net": [
        {}, {"temper": True, "settle": 2.0}, {"loops": False, "context": False}, {"tables": 0, "hidden": 7},
        {"channels": 5, "tables": 3, "hidden": 10},
    ],
    "fe-nbp": [
        {}, {"norm": True, "context": True, "settle": 2.0}, {"context": True, "alpha": "edge"},
        {"features": "old+factor-max", "bounded": False, "hidden": 6}, {"norm": True, "features": "new+variable"},
    ],
    "fe-gnn": [{}, {"features": "bp", "settle": 2.0}, {"channels": 7, "hidden": 9}],
}  # fmt: skip
CASES = [(kind, settings) for kind, all_settings in SETTINGS.items() for settings in all_settings]


def _kinds() -> FactorGraph:
    """Return factors of every kind, with loops of pair factors of several kinds."""
    rng = np.random.default_rng(0)
    factors: list[Any] = [([i], rng.normal(size=2)) for i in range(9)] + [([9], rng.normal(size=3))]
    factors += [
        ([0, 1, 2, 3], Parity(log_values=(0.3, -0.8))), ([1, 2, 3], Clause([True, False, True], weight=0.7)),
        ([3, 4, 5, 6], AtMost(2)), ([6, 7, 8], NoisyOr(0.2, [0.5, 0.3])), ([0, 3], Potts(0.6)), ([1, 3], Potts(-0.4)),
        ([0, 1], rng.normal(size=(2, 2))), ([5, 7], TruncatedLinear(0.4, 1.0)), ([7, 8], Clause(weight=0.5)),
        ([2, 4, 8], SparseTable([[0, 1, 1], [1, 0, 0]], [0.4, -0.3], 0.1)), ([4, 9], rng.normal(size=(2, 3))),
        ([0, 8], SparseTable([[0, 0], [1, 1]], [0.4, -0.3])), ([2, 5], Potts(0.3)),
    ]  # fmt: skip
    return FactorGraph([2] * 9 + [3], factors, log=True)


GRAPHS = {
    "grid": [ising_grid(5, 6, seed=1)],
    "strong grid": [ising_grid(6, 6, seed=2, coupling_std=3.0)],
    "states": [potts_grid(5, 5, states=4, seed=3)],
    "ragged": [random_graph(14, 24, arity=(1, 4), card=(2, 4), seed=4)],
    "zeros": [random_graph(12, 16, arity=(1, 3), card=(2, 3), zeros=0.2, seed=s) for s in range(3)],
    "high degree": [FactorGraph([2] * 20, [([0, i], np.random.default_rng(i).random((2, 2))) for i in range(1, 20)])],
    "evidence": [ising_grid(4, 5, seed=5).condition({0: 1, 7: 0})],
    "wide": [ising_grid(5, 5, seed=6, coupling_std=80.0)],
    "batch": [*ising_grid(3, 3, seed=7, count=4), potts_grid(3, 3, states=3, seed=8), FactorGraph([2, 3])],
    "kinds": [_kinds()],
    "no factors": [FactorGraph([2, 3])],
    "one variable": [FactorGraph([3], [([0], [1.0, 2.0, 0.0])])],
}
BINARY = ("grid", "strong grid", "high degree", "evidence")


PLAIN_AND_COMPILED = ("1", "0")


def _compare(graphs: list[FactorGraph], task: str, solver: str, plain: Sequence[str] = ("0",)) -> None:
    """Compare answers, which may differ by the rounding of hidden vectors to single precision."""
    other = solve(graphs, task, solver, engine="torch")
    for setting in plain:
        with mock.patch.dict(os.environ, EQUIFACTOR_PLAIN=setting):
            native = solve(graphs, task, solver)
        _compare_answers(task, native, other)


def _compare_answers(task: str, native: Any, other: Any) -> None:
    for found, wanted in zip(native, other, strict=True):
        assert (found.status, found.iterations) == (wanted.status, wanted.iterations)
        if not wanted.answered:
            continue
        if task == "MAP":
            assert found.upper_bound == pytest.approx(wanted.upper_bound, rel=1e-5, abs=1e-5)
            assert found.log_score == pytest.approx(wanted.log_score, rel=1e-5, abs=1e-5)
            continue
        np.testing.assert_allclose(found.marginals.values, wanted.marginals.values, atol=1e-5)
        np.testing.assert_array_equal(found.marginals.values == 0.0, wanted.marginals.values == 0.0)
        if hasattr(wanted, "log_z"):
            assert found.log_z == pytest.approx(wanted.log_z, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("plain", PLAIN_AND_COMPILED)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("solver", ["fe-net", "fe-nbp", "fe-gnn"])
def test_shipped_weights(solver: str, name: str, plain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQUIFACTOR_PLAIN", plain)  # also for what runs beside the network in torch
    if solver == "fe-gnn":
        if name in BINARY:
            _compare(GRAPHS[name], "MAR", solver, plain)
        return
    _compare(GRAPHS[name], "MAR", solver, plain)
    _compare(GRAPHS[name], "MAP", f"{solver}(alone)", plain)


@pytest.mark.parametrize(("kind", "settings"), CASES)
def test_all_settings_with_random_weights(
    kind: str, settings: dict[str, Any], tmp_path: Path, write_model: Any
) -> None:
    for task in ("MAR", "MAP"):
        model = write_model(tmp_path / f"{task}.safetensors", kind, task=task, steps=4, **settings)
        alone = ", alone" if task == "MAP" and kind != "fe-gnn" else ""  # the network without the runs beside it
        for name in BINARY if kind == "fe-gnn" else ("grid", "ragged", "zeros", "batch"):
            _compare(GRAPHS[name], task, f"{model}(iterations=6{alone})", PLAIN_AND_COMPILED)


@pytest.mark.parametrize(("kind", "settings"), CASES)
def test_both_engines_have_the_same_weights(kind: str, settings: dict[str, Any]) -> None:
    network = build(kind, settings)
    shapes = _at(solver_class(kind).native_class).shapes(network.config)
    assert shapes == {name: tuple(values.shape) for name, values in network.state_dict().items()}


@pytest.mark.parametrize("kind", KINDS)
def test_untrained_networks(kind: str) -> None:
    graph = GRAPHS["grid"]
    if kind != "fe-gnn":
        for name in ("grid", "ragged", "zeros", "kinds"):
            _compare(GRAPHS[name], "MAR", f"{kind}(untrained)")
            _compare(GRAPHS[name], "MAP", f"{kind}(untrained)")
        return
    first, again, other = (
        solve(graph[0], "MAR", f"{kind}(untrained)", seed=seed).marginals.values for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-4


def test_half_precision_weights_are_read(tmp_path: Path, write_model: Any) -> None:
    from safetensors.torch import load_file, save_file

    from equifactor.solvers.learned.model_card import KEY, read_card

    path = Path(write_model(tmp_path / "model.safetensors", "fe-nbp", steps=3))
    card = read_card(path)
    tensors = load_file(path)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        rounded = {name: values.to(dtype) for name, values in tensors.items()}
        other = tmp_path / f"{str(dtype).removeprefix('torch.')}.safetensors"
        save_file(rounded, other, {KEY: card.to_json()})
        _compare(GRAPHS["grid"], "MAR", str(other))


def test_settings_come_from_the_card(tmp_path: Path, write_model: Any) -> None:
    model = write_model(tmp_path / "model.safetensors", "fe-net", steps=5)
    assert solve(GRAPHS["grid"][0], "MAR", str(model)).iterations == 5
    assert dataclasses.asdict(solver_class("fe-net").config_class()) == dataclasses.asdict(build("fe-net").config)
