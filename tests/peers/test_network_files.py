"""Files of Bayesian networks: the 24 networks of the bnlearn repository that come with pgmpy, and files of pyAgrum."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equifactor as ef

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]


def bnlearn_files() -> list[Path]:
    """Return the files in the installed package, which is found but not imported."""
    package = find_spec("pgmpy")
    if package is None or package.origin is None:
        return []
    return sorted((Path(package.origin).parent / "utils" / "example_models").glob("*.bif.gz"))


FILES = bnlearn_files()
needs_files = pytest.mark.skipif(not FILES, reason="pgmpy and its example models are not installed")


@needs_files
def test_there_are_24_networks() -> None:
    assert len(FILES) == 24


@needs_files
@pytest.mark.parametrize("file", FILES, ids=[file.name.partition(".")[0] for file in FILES])
def test_read_without_much_work_and_round_trip_through_every_format(file: Path, tmp_path: Path) -> None:
    started = time.process_time()  # not the time of other processes
    g = ef.read_graph(file)
    assert time.process_time() - started < 60.0  # The goal is a second; a machine may be slow.
    assert g.num_factors == g.num_vars
    for format in ("bif", "xmlbif", "net", "xdsl", "cfn.gz"):
        path = tmp_path / f"{g.name}.{format}"
        ef.write_graph(g, path)
        h = ef.read_graph(path)
        assert h == g, format
        assert h.structure.variable_names == g.structure.variable_names
        assert h.structure.state_names == g.structure.state_names
        np.testing.assert_array_equal(h.log_phi, g.log_phi)


@needs_files
def test_a_posterior_of_asia() -> None:
    g = ef.read_graph(next(file for file in FILES if file.name.startswith("asia")))
    result = ef.solve(g, "MAR", "exact", evidence={"xray": "yes", "smoke": "no"})
    assert result.marginals is not None
    # P(lung = yes | xray = yes, smoke = no) by Bayes' rule over the few causes of an abnormal picture.
    tub, lung = 0.01 * 0.05 + 0.99 * 0.01, 0.01
    either = 1 - (1 - tub) * (1 - lung)
    wanted = 0.98 * lung / (0.98 * either + 0.05 * (1 - either))
    assert result.marginals["lung"][0] == pytest.approx(wanted, abs=1e-12)


# ---- pyAgrum ----------------------------------------------------------------------------------------------


def network() -> ef.FactorGraph:
    """Return a network of four variables of two to four states; one variable has two parents."""
    rng = np.random.default_rng(7)
    variables = {"a": ["a0", "a1"], "b": ["b0", "b1", "b2"], "c": ["c0", "c1", "c2", "c3"], "d": ["d0", "d1"]}
    card = [len(states) for states in variables.values()]
    factors = []
    for scope in ([0], [0, 1], [1, 0, 2], [2, 3]):
        table = rng.gamma(1.0, 1.0, [card[i] for i in scope])
        factors.append((scope, table / table.sum(axis=-1, keepdims=True)))
    return ef.FactorGraph(variables, factors)


def tables(bn: Any, g: ef.FactorGraph) -> list[np.ndarray]:
    """Return the tables of the network in the order of the scopes of the graph."""
    found = []
    for a in range(g.num_factors):
        names = [g.structure.variable_names[i] for i in g.structure.scope(a)]
        cpt = bn.cpt(names[-1])
        table = np.array(cpt.toarray()).T  # the axes of pyAgrum are in the reverse order of its names
        found.append(np.transpose(table, [list(cpt.names).index(name) for name in names]))
    return found


# Its reader of .bif and .net has single precision; its .xdsl has the first parent fastest, where GeNIe has the last.
@pytest.mark.parametrize(
    ("suffix", "theirs", "ours"), [("bif", 1e-7, 1e-5), ("bifxml", 1e-15, 1e-5), ("net", 1e-7, 1e-5)]
)
def test_pyagrum_reads_and_writes_the_same(suffix: str, theirs: float, ours: float, tmp_path: Path) -> None:
    gum = pytest.importorskip("pyagrum")
    g = network()
    ef.write_graph(g, tmp_path / f"a.{suffix}")
    bn = gum.loadBN(str(tmp_path / f"a.{suffix}"))
    for a, table in enumerate(tables(bn, g)):
        np.testing.assert_allclose(table, np.exp(g.log_table(a)), rtol=0, atol=theirs)
    gum.saveBN(bn, str(tmp_path / f"b.{suffix}"))
    h = ef.read_graph(tmp_path / f"b.{suffix}")
    for a, table in enumerate(tables(bn, h)):
        np.testing.assert_allclose(np.exp(h.log_table(a)), table, rtol=0, atol=ours)


def test_pyagrum_reads_our_xdsl_where_nodes_have_one_parent(tmp_path: Path) -> None:
    gum = pytest.importorskip("pyagrum")
    g = network()
    g = ef.FactorGraph({"a": ["a0", "a1"], "b": ["b0", "b1", "b2"]}, list(g.linear_factors())[:2])
    ef.write_graph(g, tmp_path / "a.xdsl")
    bn = gum.loadBN(str(tmp_path / "a.xdsl"))
    for a, table in enumerate(tables(bn, g)):
        np.testing.assert_allclose(table, np.exp(g.log_table(a)), rtol=0, atol=1e-15)
