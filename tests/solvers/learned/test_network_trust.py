"""Marginals of `fe-net`: means of the network and of BP, with predicted errors."""

from __future__ import annotations

import numpy as np
import pytest

import equifactor as ef
from equifactor import FactorGraph, Task
from equifactor.base.clock import Clock, NotCompiledError
from equifactor.base.status import Status
from equifactor.generators import ising_grid, pedigree, potts_grid, random_network, random_tree
from equifactor.graph import compile
from equifactor.solvers.learned import network_trust
from equifactor.solvers.learned.fe_net_solver import FENetSolver
from equifactor.solvers.learned.loop_places import find_loops
from equifactor.solvers.learned.native import native_loops
from equifactor.solvers.learned.network_trust import RUNS
from equifactor.solvers.learned.trust_features import excess_edges, features
from equifactor.solvers.learned.trust_model import ERROR_START, TrustModel, load_trust
from equifactor.solving.estimate import Estimate
from equifactor.solving.solver import SolveContext
from experiments.trust_graphs import draw

GRID = ising_grid(4, 4, coupling_std=2.0, seed=9_500_000)


def test_the_answer_lies_between_its_runs() -> None:
    texts = (
        "bp(damping=0.5)", "bp(damping=0.9, iterations=50)", "bp(damping=0.5, iterations=1000)",
        "fe-net(untrained, iterations=100)",
    )  # fmt: skip
    runs = np.array([ef.solve(GRID, "MAR", text).marginals.values for text in (*texts, "fe-net(alone)")])
    found = ef.solve(GRID, "MAR", "fe-net")
    assert np.all(found.marginals.values >= runs.min(0) - 1e-9)
    assert np.all(found.marginals.values <= runs.max(0) + 1e-9)
    assert 0.0 <= found.stats["trust"] <= 1.0
    assert found.message.startswith(
        "The network ran the 16 steps that it is made for. The predicted error of a marginal "
    )


def test_a_batch_is_the_same_as_one_by_one() -> None:
    graphs = [GRID, random_tree(6, seed=1), potts_grid(3, 3, states=3, seed=2).condition({4: 1})]
    for alone, other in zip(
        (ef.solve(g, "MAR", "fe-net") for g in graphs), ef.solve(graphs, "MAR", "fe-net"), strict=True
    ):
        assert alone.marginals.values == pytest.approx(other.marginals.values, abs=1e-6)
        assert alone.marginal_errors is not None
        assert other.marginal_errors is not None
        assert alone.marginal_errors.values == pytest.approx(other.marginal_errors.values, rel=1e-3, abs=1e-6)


def test_a_forest_is_exact_with_error_zero() -> None:
    graph = random_tree(12, card=(2, 4), seed=3).condition({5: 0})
    found, exact = ef.solve(graph, "MAR", "fe-net"), ef.solve(graph, "MAR", "exact")
    assert found.marginals.values == pytest.approx(exact.marginals.values, abs=1e-6)
    assert found.marginal_errors is not None
    assert np.all(found.marginal_errors.values == 0.0)
    assert "The marginals are exact" in found.message


def test_errors_have_the_form_of_marginals_and_are_zero_for_evidence() -> None:
    graph = GRID.condition({3: 1})
    found = ef.solve(graph, "MAR", "fe-net")
    assert found.marginal_errors is not None
    assert found.marginal_errors[3].tolist() == [0.0, 0.0]
    assert np.all(found.marginal_errors[4] > 0.0)
    assert found.to_dict()["marginal_errors"][3] == [0.0, 0.0]
    assert found.standard_errors is None  # Nothing was sampled.
    assert ef.solve(GRID, "MAR", "fe-net(alone)").marginal_errors is None


def test_the_predicted_errors_hold() -> None:
    """About 90 % of the variables have an error below the predicted one, on graphs that the fit has not seen."""
    graphs = [
        *ising_grid(4, 4, coupling_std=1.5, count=25, seed=9_600_000),
        *potts_grid(3, 4, states=3, coupling_std=2.0, count=25, seed=9_600_001),
        *random_network(16, sharpness=3.0, count=25, seed=9_600_002),
        *pedigree(8, loci=1, count=25, seed=9_600_003),
    ]
    held = []
    for found, exact in zip(ef.solve(graphs, "MAR", "fe-net"), ef.solve(graphs, "MAR", "exact"), strict=True):
        assert found.marginal_errors is not None
        over = np.abs(found.marginals.values - exact.marginals.values) - found.marginal_errors.values
        held.append(np.maximum.reduceat(over, found.marginals.ptr[:-1])[found.graph.free_vars] <= 1e-6)
    assert 0.8 < np.mean(np.concatenate(held)) < 0.99


def test_weights_sum_to_one_for_any_features() -> None:
    given = np.random.default_rng(0).normal(0, 100, (50, len(load_trust().mean)))
    model = load_trust()
    shares, error = model(given)
    assert shares.shape[1:] == (50, len(RUNS))
    assert shares.sum(2) == pytest.approx(1.0)
    runs = np.random.default_rng(1).dirichlet(np.ones(2), (len(RUNS), 50)).reshape(len(RUNS), 100)
    mean, total, share = model.combined(given, runs, np.repeat(np.arange(50), 2))
    assert mean.reshape(50, 2).sum(1) == pytest.approx(1.0)
    assert share.sum(1) == pytest.approx(1.0)
    assert np.all((total >= np.minimum(error, 1.0)) & (total <= 1.0))


def test_where_members_disagree_the_error_is_larger() -> None:
    layers = tuple((np.zeros((2, out, size)), np.zeros((2, out))) for out, size in ((3, 1), (3, 3), (3, 3)))
    layers[2][1][:, 0] = 50.0, -50.0  # One member takes the first run, the other one takes the second.
    model = TrustModel(np.zeros(1), np.ones(1), layers)
    runs = [np.array([0.2, 0.8, 0.5, 0.5]), np.array([0.6, 0.4, 0.5, 0.5])]
    mean, error, _ = model.combined(np.zeros((2, 1)), runs, np.array([0, 0, 1, 1]))
    assert mean == pytest.approx([0.4, 0.6, 0.5, 0.5])
    assert error - np.exp(ERROR_START) == pytest.approx([0.2, 0.0])


def test_where_bp_settles_late_the_answer_is_its_fixed_point() -> None:
    """On a long chain of gates BP needs more than 200 iterations, and then it is close to the exact answer."""
    graph = draw("long gates", 208)
    first, settled = (ef.solve(graph, "MAR", f"bp(damping=0.5, iterations={n})") for n in (200, 1000))
    found, exact = ef.solve(graph, "MAR", "fe-net"), ef.solve(graph, "MAR", "exact")
    assert first.status is Status.ITERATION_LIMIT
    assert settled.status is Status.CONVERGED

    def far(result: ef.Result) -> float:
        return float(np.abs(result.marginals.values - exact.marginals.values).mean())

    assert far(found) < 0.5 * far(first)


def test_features_of_equal_runs_are_finite() -> None:
    flat = compile([GRID, FactorGraph([1, 2], [((1,), [0.0, 1.0])])])
    run = np.concatenate([np.full(32, 0.5), [1.0], [0.0, 1.0]])
    found = features(flat, [run] * len(RUNS), np.zeros((2, len(RUNS))))
    assert found.shape == (flat.num_vars, len(load_trust().mean))
    assert np.isfinite(found).all()


def test_the_runs_of_one_question_search_for_loops_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = GRID.condition({3: 1})
    first, counted = ef.solve(graph, "MAR", "fe-net"), []
    monkeypatch.setattr(native_loops, "find_loops", lambda *given: counted.append(given) or find_loops(*given))
    again = GRID.condition({3: 1})
    assert np.array_equal(ef.solve(again, "MAR", "fe-net").marginals.values, first.marginals.values)
    assert len(counted) <= 1
    other = GRID.condition({5: 0})  # Other variables are free, so the loops are others.
    in_batch = ef.solve([other, random_tree(3, seed=1)], "MAR", "fe-net")[0].marginals.values
    assert ef.solve(other, "MAR", "fe-net").marginals.values == pytest.approx(in_batch, abs=1e-6)


def test_excess_edges_count_loops() -> None:
    flat = compile([GRID, random_tree(5, seed=1)])
    assert excess_edges(flat)[0] == 24 - 16
    assert excess_edges(flat)[1] == -1


def test_without_time_estimates_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = FENetSolver()
    own = FENetSolver(alone=True).run([GRID], Task.MAR, SolveContext(clock=Clock(None)))
    monkeypatch.setattr(Clock, "stopped", property(lambda _: True))
    assert solver.judged(own, [GRID], Task.MAR, SolveContext(clock=Clock(None))) == own


def test_without_kernels_estimates_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    class NeverReady:
        damping, iterations = 0.5, 200

        def run(self, *_: object) -> list[object]:
            raise NotCompiledError("kernel", 5.0, 1.0)

    own = FENetSolver(alone=True).run([GRID], Task.MAR, SolveContext(clock=Clock(None)))
    monkeypatch.setattr(network_trust, "replace", lambda given, **_: given)
    never = NeverReady()
    context = SolveContext(clock=Clock(None))
    assert network_trust.within_trust(own, never, never, [GRID], Task.MAR, context) == own  # type: ignore[arg-type]
    assert own[0].status is not Status.EXACT


def test_runs_that_are_cut_short_are_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    own = FENetSolver(alone=True).run([GRID], Task.MAR, SolveContext(clock=Clock(None)))

    class CutShort:
        damping, iterations = 0.5, 200

        def run(self, graphs: list[FactorGraph], *_: object) -> list[object]:
            return [Estimate(status=Status.TIME_LIMIT, marginals=own[0].marginals) for _ in graphs]

    monkeypatch.setattr(network_trust, "replace", lambda given, **_: given)
    short, context = CutShort(), SolveContext(clock=Clock(None))
    assert network_trust.within_trust(own, short, short, [GRID], Task.MAR, context) == own  # type: ignore[arg-type]
