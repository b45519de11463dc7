"""mplp, srmp, trw and mean field on factors of every kind: bounds hold, and answers are the same as on tables."""

import numpy as np
import pytest
from random_factors import all_states, as_tables, random_factor, random_mixture, scores_from_tables

import equifactor as ef
from equifactor.base.clock import Clock
from equifactor.factors.conditional_kernels import conditional_values, literals_held
from equifactor.factors.dense_graph import tables_at
from equifactor.factors.noisy_or.noisy_or_expectation_kernels import presence_knots
from equifactor.factors.structured_kernels import kind_rows_of
from equifactor.graph.layout import SLOT, VAR, layout_of
from equifactor.graph.reduction import without_impossible_states
from equifactor.solvers.duals.ascent import FactorAscent, VariableAscent
from equifactor.solvers.messages.meanfield import ProductField
from equifactor.solvers.messages.trw import Reweighting

CASES = 50
pytestmark = pytest.mark.slow  # The kernels take two minutes to compile.


def mixtures(count, first=0):
    """Yield random graphs with a possible assignment, and their best log scores and ln Z."""
    for seed in range(first, first + count):
        graph = random_mixture(np.random.default_rng(seed))
        scores = scores_from_tables(graph)
        if scores.max() > -np.inf:
            yield graph, scores.max(), np.logaddexp.reduce(scores)


def possible_graphs(count):
    """Yield random graphs of several kinds, without the states that their factors exclude."""
    rng = np.random.default_rng(7)
    while count:
        (reduced,) = without_impossible_states([random_mixture(rng)])
        if reduced is not None and reduced.graph.structure.kinds is not None:
            count -= 1
            yield reduced.graph


@pytest.mark.parametrize("solver", ["mplp", "srmp", "mplp(iterations=2)", "srmp(iterations=2)", "srmp(cycles)"])
def test_the_best_score_lies_between_score_and_bound(solver):
    proven = count = 0
    for graph, best, _ in mixtures(CASES):
        found = ef.solve(graph, "MAP", solver)
        assert found.log_score <= best + 1e-9
        assert found.upper_bound >= best - 1e-9
        assert found.status != "optimal" or found.log_score >= best - 1e-6
        proven += found.status == "optimal"
        count += 1
    assert proven > 0.7 * count


@pytest.mark.parametrize("solver", ["trw", "trw(iterations=2)"])
def test_trw_bounds_ln_z_from_above(solver):
    for graph, _, log_z in mixtures(CASES):
        assert ef.solve(graph, "PR", solver).upper_bound >= log_z - 1e-12


@pytest.mark.parametrize("solver", ["meanfield", "meanfield(iterations=2)"])
def test_mean_field_bounds_ln_z_from_below(solver):
    found = 0
    for graph, _, log_z in mixtures(CASES):
        bound = ef.solve(graph, "PR", solver).lower_bound
        assert bound is None or bound <= log_z + 1e-9
        found += bound is not None
    assert found > 0.9 * CASES


def test_graphs_without_a_possible_assignment_have_no_bounds():
    odd = ef.FactorGraph([2] * 3, [([0, 1, 2], ef.Parity()), ([0, 1, 2], ef.Parity(odd=True))])
    assert ef.solve(odd, "PR", "meanfield").status == "zero-probability"
    assert ef.solve(odd, "MAP", "mplp").log_score == -np.inf
    assert ef.solve(odd, "MAP", "srmp").log_score == -np.inf


@pytest.mark.parametrize("ascent", [FactorAscent, VariableAscent])
def test_sweeps_are_those_of_the_tables(ascent):
    for graph in possible_graphs(30):
        flats = [ef.solvers.compile(g) for g in (graph, as_tables(graph))]
        one, two = (ascent(flat) for flat in flats)
        for _ in range(4):
            bounds = one.sweep(), two.sweep()
            assert bounds[0] == pytest.approx(bounds[1], abs=1e-9)
        assert one.bound == pytest.approx(two.bound, abs=1e-9)
        for states in one.candidates():
            assert graph.log_score(flats[0].assignments(states)[0]) <= one.bound + 1e-9


def test_the_bound_of_trw_holds_at_any_messages():
    rng = np.random.default_rng(0)
    for graph, _, log_z in mixtures(30):
        trw = Reweighting(ef.solvers.compile(graph), 4, 0.0, 0)
        pairs = trw.layout.first_pair_state
        shift = rng.normal(size=len(trw.state.msg) - pairs)
        for size in (3.0, 1e6, 1e12, 1e18):
            trw.state.msg[pairs:] = size * shift
            assert trw.bound()[0] >= log_z - 1e-12


def test_mean_field_is_that_of_the_tables():
    for graph in possible_graphs(40):
        fields = [ProductField(ef.solvers.compile(g)) for g in (graph, as_tables(graph))]
        rng = np.random.default_rng(1)
        noisy = any(graph.factor(a).kind == "noisy_or" for a in range(graph.num_factors) if not _is_table(graph, a))
        for q in fields[0].starts(2, rng, Clock()):
            other = q.copy()
            for hard in (False, False, True, True):
                for field, values in zip(fields, (q, other), strict=True):
                    field.sweep(values, 2.0, hard=hard and field.has_zeros)
                if not noisy:
                    np.testing.assert_allclose(q, other, atol=1e-9)
            own, tables = fields[0].bound(q), fields[1].bound(q)
            assert own == pytest.approx(tables, abs=0.02 if noisy else 1e-9)
            assert own <= tables + 1e-9


def _is_table(graph, a):
    return isinstance(graph.factor(a), np.ndarray)


def test_the_expected_log_of_a_noisy_or_is_close_below():
    knots, weights = presence_knots()
    for strength in 10.0 ** np.arange(-3, 2.0, 0.25):
        found = -np.sum(weights * np.exp(-strength * knots[:-1]))
        assert -1e-12 <= np.log(-np.expm1(-strength)) - found < 0.01


@pytest.mark.parametrize("task", ["PR", "MAP"])
def test_trees_are_exact(task):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        factors, num_vars = [], 1
        for kind in rng.choice(["parity", "clause", "count", "sparse", "noisy_or", "potts"], 4):
            arity = 2 if kind == "potts" else int(rng.integers(2, 4))
            scope = [int(rng.integers(num_vars)), *range(num_vars, num_vars + arity - 1)]
            num_vars += arity - 1
            factors.append((rng.permutation(scope).tolist(), random_factor(rng, str(kind), (2,) * arity)))
        graph = ef.FactorGraph(
            [2] * num_vars, [*factors, *(([i], rng.normal(size=2)) for i in range(num_vars))], log=True
        )
        scores = scores_from_tables(graph)
        if scores.max() == -np.inf:
            continue
        if task == "PR":
            assert ef.solve(graph, "PR", "trw").log_z == pytest.approx(np.logaddexp.reduce(scores), abs=1e-6)
        else:
            for solver in ("mplp", "srmp"):
                assert ef.solve(graph, "MAP", solver).log_score == pytest.approx(scores.max(), abs=1e-6)


def test_batches_mix_graphs_with_and_without_kinds():
    graphs = [*possible_graphs(2), ef.generators.ising_grid(3, 3, seed=0)]
    solvers = [("PR", "trw(iterations=5)"), ("PR", "meanfield(iterations=9)"), ("MAP", "mplp"), ("MAP", "srmp")]
    for task, solver in solvers:
        together = ef.solve(graphs, task, solver)
        for one, graph in zip(together, graphs, strict=True):
            alone = ef.solve(graph, task, solver)
            assert one.lower_bound == alone.lower_bound
            assert one.upper_bound == alone.upper_bound


def test_long_scopes():
    rng, n = np.random.default_rng(0), 1000
    unary = [([i], np.array([0.0, v])) for i, v in enumerate(rng.normal(size=n).tolist())]
    long = [
        (range(n), ef.Parity()),
        (range(0, n, 2), ef.AtMost(100)),
        (range(1, n, 2), ef.Clause()),
        (range(0, n, 20), ef.NoisyOr(0.1, rng.random(49).tolist())),
    ]
    graph = ef.FactorGraph([2] * n, [*unary, *long], log=True)
    for solver in ("mplp(iterations=3)", "srmp(iterations=3)"):
        found = ef.solve(graph, "MAP", solver)
        assert np.isfinite(found.log_score)
        assert found.log_score <= found.upper_bound < 600
    lower, upper = (ef.solve(graph, "PR", s) for s in ("meanfield(starts=1)", "trw(iterations=3)"))
    assert 0 < lower.lower_bound < upper.upper_bound < 900


def test_conditional_values_are_those_of_the_tables():
    rng = np.random.default_rng(3)
    for graph in possible_graphs(30):
        flat, states = ef.solvers.compile(graph), all_states(graph)
        layout, rows = layout_of(flat), kind_rows_of(flat, None)
        if graph.observed is not None or flat.num_vars != graph.num_vars:
            continue
        chosen = np.ascontiguousarray(states[rng.integers(len(states))])
        held = literals_held(layout.factors, layout.slots, rows, chosen)
        for p in range(rows[5], flat.num_factors):
            number = int(np.flatnonzero(layout.order == p)[0])
            for s in range(layout.factors[p, SLOT], layout.factors[p + 1, SLOT]):
                i = layout.slots[s, VAR]
                values = np.empty(graph.card[i])
                conditional_values(layout.factors, layout.slots, flat.log_phi, rows, p, s, chosen, held, values)
                for x in range(graph.card[i]):
                    changed = chosen.copy()
                    changed[i] = x
                    wanted = graph.log_table(number)[tuple(changed[graph.structure.scope(number)])]
                    assert values[x] == pytest.approx(wanted, abs=1e-12)


def test_some_factors_become_tables_and_the_others_stay():
    for graph in possible_graphs(20):
        chosen = np.random.default_rng(0).random(graph.num_factors) < 0.5
        mixed = tables_at(graph, chosen)
        kinds = np.zeros(graph.num_factors) if mixed.structure.kinds is None else mixed.structure.kinds.kind
        assert not np.any(kinds[chosen])
        for a in range(graph.num_factors):
            np.testing.assert_allclose(mixed.log_table(a), graph.log_table(a))
