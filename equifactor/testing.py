"""Small graphs that cover special cases, and assertions on graphs, for your tests and for those of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.generators import ising_grid, random_graph, random_tree
from equifactor.graph.factor_graph import FactorGraph, as_graph
from equifactor.symmetry.relabelling import KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from numpy.typing import ArrayLike

    from equifactor.solving.solver import Solver, Symmetry
    from equifactor.symmetry.comparable_answers import GraphFunction


def contract_graphs() -> dict[str, FactorGraph]:
    """Return the graphs that every solver must answer, by name; always the same, each with at most 2^14 joint states.

    Every graph has an assignment of positive probability. Cost: a few milliseconds.
    """
    rng = np.random.default_rng(20210929)
    tree = random_tree(9, card=(2, 3), seed=1)
    loop = ising_grid(3, 3, seed=2)
    hard_tree = random_tree(8, card=(2, 4), zeros=0.4, seed=3)
    hard_loop = random_graph(8, 12, arity=(1, 3), card=(2, 3), zeros=0.4, seed=4)
    ragged = random_graph(6, 9, arity=(1, 3), card=(1, 6), seed=5)
    constants: list[tuple[list[int], ArrayLike]] = [([], 2.5), ([], 0.01), ([0, 1], [[1.0, 2.0], [3.0, 0.5]])]
    graphs = {
        "one variable": FactorGraph([3], [([0], [0.2, 0.5, 0.3])]),
        "no factors": FactorGraph([2, 3]),
        "tree": tree,
        "loop": loop,
        "disconnected": FactorGraph([2] * 6, _disconnected(rng)),
        "disconnected tree": FactorGraph([2, 3, 2, 2], _two_chains(rng)),
        "ragged cardinalities": ragged,
        "hard zeros tree": hard_tree,
        "hard zeros": hard_loop,
        "one possible assignment": FactorGraph([2] * 4, _parity_chain()),
        "full evidence": loop.condition({i: i % 2 for i in range(loop.num_vars)}),
        "some evidence": ragged.condition({0: 0, 3: int(ragged.card[3]) - 1}),
        "soft evidence": tree.condition({0: np.linspace(0.1, 0.9, int(tree.card[0]))}),
        "arity 0": FactorGraph([2, 2], constants),
        "arity 5": random_graph(7, 4, arity=5, card=(2, 3), seed=6),
        "isolated variable": FactorGraph([2, 3, 2], [([0, 2], [[1.0, 2.0], [3.0, 4.0]])]),
        "one-state variables": FactorGraph([1, 2, 1, 3], _one_state(rng)),
        "repeated scope": FactorGraph([2, 3], _repeated_scope(rng)),
        "large logs": FactorGraph([2, 3, 2], _extreme(rng, 500.0), log=True),
        "small logs": FactorGraph([2, 3, 2], _extreme(rng, -500.0), log=True),
        "wide logs": FactorGraph([2, 3, 2], _wide(rng), log=True),
    }
    return {name: graph.renamed(name) for name, graph in graphs.items()}


@checks_types("tolerance")
def assert_same_graph(g: FactorGraph, h: FactorGraph, tolerance: float = 0.0) -> None:
    """Fail unless both graphs have the same cardinalities, scopes, names, evidence and tables.

    `tolerance` is absolute on the natural logs of the tables; true zeros must agree exactly.
    """
    tolerance = float(tolerance)
    s, t = as_graph(g).structure, as_graph(h).structure
    for field in ("card", "scope_ptr", "scope_vars"):
        np.testing.assert_array_equal(getattr(s, field), getattr(t, field), err_msg=f"{field} differs")
    assert s.variable_names == t.variable_names, f"names: {s.variable_names} and {t.variable_names}"
    assert s.state_names == t.state_names, f"state names: {s.state_names} and {t.state_names}"
    assert g.evidence == h.evidence, f"evidence: {g.evidence} and {h.evidence}"
    np.testing.assert_array_equal(np.isneginf(g.log_phi), np.isneginf(h.log_phi), err_msg="zeros differ")
    np.testing.assert_allclose(g.log_phi, h.log_phi, rtol=0, atol=tolerance, err_msg="tables differ")


def assert_equivariant(
    model: str | Solver | GraphFunction,
    graph: FactorGraph | Iterable[FactorGraph] | None = None,
    kinds: Collection[Symmetry] | Symmetry = KINDS,
    trials: int = 3,
    seed: int = 0,
    *,
    tolerance: float = 1e-6,
) -> None:
    """Fail unless the answers of a model follow every relabelling of these kinds, up to `tolerance`.

    Args:
        model: a solver or its text form; or your own function of a `FactorGraph` that returns `Marginals`, one vector
            per variable, one flat array over all states, or one number such as ln Z; numpy, torch or plain.
        graph: one graph or several to try it on; small graphs of many kinds by default.
        kinds: the symmetries that must hold.
        trials: number of random relabellings per kind and graph.
        seed: the seed of the relabellings, and of a solver.
        tolerance: absolute for probabilities, relative to max(1, |number|) for numbers.

    A graph on which rounding alone moves the answer by more than `tolerance` is left out. If no graph is left, the
    check fails.

    Examples:
        >>> from equifactor import testing
        >>> testing.assert_equivariant("bp(damping=0.5)")
        >>> testing.assert_equivariant(lambda g: [[1 / d] * d for d in g.card])  # your own method: uniform marginals
    """
    from equifactor.symmetry.auditing import Trials, audit

    graphs = list(contract_graphs().values()) if graph is None else graph
    for finding in audit(model, graphs, kinds, trials=Trials(trials, seed), claims=kinds, tolerance=tolerance):
        found = finding.violation
        assert finding.cases, (
            f"{found.kind} symmetry cannot be decided: rounding alone moves the answer on every graph by more than the "
            f"tolerance {tolerance:g}"
        )
        assert not finding.failed, (
            f"{found.kind} symmetry is violated by {found.error:.3g} (tolerance {tolerance:g}): {found.where}, "
            f"shown by Relabelling.random(graph, {found.kind!r}, seed={seed + found.trial})"
        )


def _disconnected(rng: np.random.Generator) -> list[tuple[list[int], np.ndarray]]:
    """Return two triangles without a common variable."""
    pairs = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]
    return [([i, j], rng.uniform(0.1, 2.0, (2, 2))) for i, j in pairs]


def _two_chains(rng: np.random.Generator) -> list[tuple[list[int], np.ndarray]]:
    """Return two chains of two variables each."""
    return [([1, 0], rng.uniform(0.1, 2.0, (3, 2))), ([2, 3], rng.uniform(0.1, 2.0, (2, 2)))]


def _parity_chain() -> list[tuple[list[int], np.ndarray]]:
    """Return a chain whose neighbours differ and whose first variable is 1: only 1, 0, 1, 0 is possible."""
    differ = np.array([[0.0, 1.0], [2.0, 0.0]])
    return [([0], np.array([0.0, 3.0])), *(([i, i + 1], differ) for i in range(3))]


def _one_state(rng: np.random.Generator) -> list[tuple[list[int], np.ndarray]]:
    scopes = [[0], [0, 1], [1, 2, 3], [2, 0]]
    card = [1, 2, 1, 3]
    return [(scope, rng.uniform(0.1, 2.0, [card[i] for i in scope])) for scope in scopes]


def _repeated_scope(rng: np.random.Generator) -> list[tuple[list[int], np.ndarray]]:
    """Return three factors over the same pair, in both orders."""
    return [
        ([0, 1], rng.uniform(0.1, 2.0, (2, 3))),
        ([1, 0], rng.uniform(0.1, 2.0, (3, 2))),
        ([0, 1], rng.uniform(0.1, 2.0, (2, 3))),
    ]


def _extreme(rng: np.random.Generator, shift: float) -> list[tuple[list[int], np.ndarray]]:
    """Return a triangle whose log tables are near `shift`, so that every product over- or underflows outside logs."""
    card = [2, 3, 2]
    pairs = [(0, 1), (1, 2), (2, 0)]
    return [([i, j], shift + rng.normal(size=(card[i], card[j]))) for i, j in pairs]


def _wide(rng: np.random.Generator) -> list[tuple[list[int], np.ndarray]]:
    """Return a chain whose log tables range from -500 to 500."""
    return [([0, 1], rng.uniform(-500.0, 500.0, (2, 3))), ([1, 2], rng.uniform(-500.0, 500.0, (3, 2)))]
