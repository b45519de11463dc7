"""Small runs that compile the kernels of every family of solvers: for `equifactor doctor --warm` and for wheels.

A family has the name of a solver, or one of `elimination`, `messages` and `networks` (exact, bp and learned solvers on
pairs), `search` (MAP by `auto`), `decoding`, `large`, `evidence`, `fitting`, `sampling` and `files`. Solvers are run on
models that lead to different kernels: binary pairs, more states and larger scopes, zeros, evidence, and structured
factors.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from equifactor.base.clock import Clock
from equifactor.base.errors import EquifactorError
from equifactor.base.optional_packages import is_installed

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph

_SECONDS = 0.2  # The limit of a run, without compiling: each kernel is called at least once.
_LITTLE = 1e-7  # GiB of tables, so that a small model is too large for exact.
# Settings that lead to other kernels than the defaults do.
_SETTINGS = {
    "auto": (f"memory_limit={_LITTLE}, seconds=0.5", ""),
    "blocks": ("enumerate=false, sweeps=20", f"enumerate=false, sweeps=20, memory_limit={_LITTLE}", "temperatures=3"),
    "bp": ("damping=0.5", "schedule=residual", "schedule=sequential"),
    "conditioning": ("", f"memory_limit={_LITTLE}"),
    "gibbs": ("samples=20",),
    "regions": ("", f"memory_limit={_LITTLE}"),
    "mini-buckets": (f"memory_limit={_LITTLE}",),
    "srmp": ("", "cycles=true"),
}
# Structured factors are for the second half of a family: most users have tables.
_ON_TABLES = {"exact", "conditioning", "blocks", "regions", "mini-buckets", "branch", "loop-bp"}


def families() -> dict[str, Callable[[], None]]:
    """Return the run of each family by name. The most common solvers come first."""
    from equifactor.solving.registry import SOLVERS

    first = ("exact", "bp", "auto", "blocks", "regions", "conditioning")
    names = (*first, *(name for name in SOLVERS if name not in first))
    solvers = {
        name: functools.partial(_run_solver, name)
        for name in names
        if ".learned." not in SOLVERS[name] and name not in ("brute", "ganak", "toulbar2")
    }
    others = {
        "elimination": _eliminate, "messages": _pass_messages, "networks": _run_networks, "search": _search,
        "decoding": _decode, "large": _score,
        "evidence": _ask_many, "sampling": _sample, "fitting": _fit, "files": _read,
    }  # fmt: skip
    return solvers | others


def warm(names: Sequence[str] | None = None, report: Callable[[int, int, str], None] | None = None) -> None:
    """Run some families, by default all. Time limits do not count compiling meanwhile.

    Args:
        names: families; unknown names are ignored.
        report: called with (done, total, name) before each family.
    """
    known = families()
    chosen = [name for name in (known if names is None else names) if name in known]
    with Clock.compiling_is_free():
        for n, name in enumerate(chosen):
            if report is not None:
                report(n, len(chosen), name)
            with contextlib.suppress(EquifactorError):  # A model may be too large for a solver.
                known[name]()


@functools.cache
def _models() -> dict[str, FactorGraph]:
    from equifactor import generators
    from equifactor.graph import FactorGraph

    pairs = generators.ising_grid(8, 8, seed=1)
    ragged = generators.random_graph(30, 45, arity=(1, 3), card=(2, 4), seed=2)
    zeros = generators.random_graph(24, 30, arity=(2, 3), card=(2, 3), zeros=0.3, seed=3)
    return {
        "pairs": pairs, "ragged": ragged, "zeros": zeros,
        "evidence": ragged.condition({0: 0, 3: 1}), "kinds": FactorGraph([2] * 12 + [3, 3], _kinds()),
    }  # fmt: skip


def _kinds() -> list[tuple[list[int], Any]]:
    """Return a factor of every kind, over twelve binary variables and two of three states."""
    from equifactor import AtMost, Clause, Count, NoisyOr, Parity, Potts, SparseTable, TruncatedLinear

    return [
        (list(range(6)), Parity()), (list(range(3, 9)), Clause([True] * 6)), (list(range(6, 12)), AtMost(4)),
        ([0, 4, 8], Count([0.1, 0.5, 0.3, 0.2])), ([1, 5, 9, 11], NoisyOr(0.1, [0.2, 0.3, 0.4])),
        ([2, 6, 10], SparseTable([[0, 0, 0], [1, 1, 0]], [0.0, 0.7], default=-0.7)),
        ([12, 13], Potts(0.7)), ([13, 12], TruncatedLinear(0.5, 1.0)), ([0, 12], [[1.0, 2.0, 0.5], [0.3, 1.0, 2.0]]),
    ]  # fmt: skip


def _run_solver(name: str) -> None:
    from equifactor.questions.solve import solve
    from equifactor.solving.registry import solver_class

    for model, graph in _models().items():
        if model == "kinds" and name in _ON_TABLES:
            continue
        for settings in _SETTINGS.get(name, ("",)):
            for task in solver_class(name).tasks:
                with contextlib.suppress(EquifactorError):
                    solve(graph, task, f"{name}({settings})", time_limit=_SECONDS)


def _eliminate() -> None:
    """Run exact on tables of pairs alone: what a first solve needs."""
    from equifactor.questions.solve import solve

    for task in ("MAR", "PR", "MAP"):
        solve(_models()["pairs"], task, "exact")


def _pass_messages() -> None:
    """Run belief propagation on tables of pairs alone."""
    from equifactor.questions.solve import solve

    for task in ("MAR", "PR", "MAP"):
        solve(_models()["pairs"], task, "bp(damping=0.5)")


def _run_networks() -> None:
    """Run the networks that need no torch on tables of pairs alone."""
    from equifactor.questions.solve import solve

    for solver in ("fe-net", "fe-nbp", "fe-gnn(untrained)"):
        for task in ("MAR", "MAP"):
            solve(_models()["pairs"], task, solver, iterations=2)


def _search() -> None:
    """Find the MAP of models that are too large for exact."""
    from equifactor.questions.solve import solve

    for graph in _models().values():
        with contextlib.suppress(EquifactorError):
            solve(graph, "MAP", memory_limit=_LITTLE, time_limit=1.0)


def _decode() -> None:
    from equifactor.decoding import Decoder, WordDecoder, bicycle_code

    code = bicycle_code("bb72", 0.03)
    for method in ("relay", "min-sum", "sum-product", "bp-osd", "relay(schedule=serial)", "learned-memory"):
        Decoder(code, method=method).logical_error_rate(64, seed=1)
    WordDecoder([[1, 1, 0, 1], [0, 1, 1, 1]]).decode([[0.1, -0.2, 0.3, 0.4]])


def _score() -> None:
    """Run `ef.large`, and share the sweeps of bp among threads."""
    from equifactor.generators import ising_grid
    from equifactor.large import rmat_edges
    from equifactor.large import solve as score
    from equifactor.questions.solve import solve

    for bits in (16, 32):
        score(rmat_edges(6, 100), [[2.0, 1.0], [1.0, 2.0]], bits=bits)
        score(rmat_edges(6, 100), [[2.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 2.0]], bits=bits)
    solve(ising_grid(160, 160, seed=1), "MAR", "bp(iterations=2)", threads=2)


def _ask_many() -> None:
    from equifactor.questions.solve import solve

    graph = _models()["ragged"]
    solve(graph, evidence=[{0: 0}, {0: 1}, {1: 0}], targets=[5])
    solve(graph, evidence=[{0: 0}, {0: 1}, {1: 0}])


def _sample() -> None:
    from equifactor.questions.sample import sample

    for graph in _models().values():
        with contextlib.suppress(EquifactorError):
            sample(graph, 50, seed=1)


def _fit() -> None:
    from equifactor.generators import random_tree
    from equifactor.learning.fitting.fitter import fit
    from equifactor.questions.sample import sample

    if not is_installed("pandas"):
        return
    tree = random_tree(8, card=(2, 3), seed=1)
    rows = sample(tree, 60, seed=1).states
    for method in ("counts", "likelihood(iterations=2)", "pseudo-likelihood(iterations=2)"):
        with contextlib.suppress(EquifactorError):
            fit(tree, rows, method=method)


def _read() -> None:
    """Read a file that is long enough to be read by kernels."""
    import tempfile
    from pathlib import Path

    from equifactor.formats import read_graph, write_graph
    from equifactor.generators import ising_grid

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.uai"
        write_graph(ising_grid(120, 120, seed=1), path)
        read_graph(path)


def main() -> None:
    """Compile the families that are named on the command line, or all; print nothing to stdout."""
    import sys

    logging.getLogger("equifactor").setLevel(logging.ERROR)
    warm(sys.argv[1:] or None)


if __name__ == "__main__":
    main()
