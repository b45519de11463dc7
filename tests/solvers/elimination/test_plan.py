"""The facts of a plan, before it runs."""

import io
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from equifactor import FactorGraph, Task
from equifactor.base.status import PLAIN_TASKS
from equifactor.generators import ising_grid, random_graph
from equifactor.solvers.elimination.plan import format_bytes, plan
from equifactor.solvers.elimination.plan_cache import known_plan
from equifactor.testing import contract_graphs


@pytest.mark.parametrize("name", contract_graphs())
def test_attributes_fit_together(name: str):
    graph = contract_graphs()[name]
    p = plan(graph)
    assert p.finished
    assert len(p.order) == len(p.clusters) == len(p.parent) == len(p.log2_sizes)
    for n, (v, cluster) in enumerate(zip(p.order, p.clusters, strict=True)):
        assert cluster[-1] == v
        parent = p.parent[n]
        assert (parent < 0) == (len(cluster) == 1)
        if parent >= 0:
            assert set(cluster[:-1]) <= set(p.clusters[parent])
    assert p.width == max((len(c) for c in p.clusters), default=1) - 1
    assert p.log2_largest == max(p.log2_sizes, default=0.0)
    assert p.entries == pytest.approx(sum(2.0**b for b in p.log2_sizes))
    assert p.fits(1.0)


def test_it_prints_its_cost():
    p = plan(ising_grid(4, 4))
    assert str(p).startswith("elimination of 16 variables: width 4, largest table 2^5.0")
    text = io.StringIO()
    Console(file=text, width=80).print(p)
    assert "largest table" in text.getvalue()


def test_evidence_and_zeros_make_it_smaller():
    grid = ising_grid(8, 8)
    assert plan(grid.condition(dict.fromkeys(range(0, 64, 2), 0))).width < plan(grid).width
    copy = [([i, i + 1], np.eye(2)) for i in range(9)]
    assert plan(FactorGraph([2] * 10, [*copy, ([0], [1.0, 0.0])])).order == ()


def test_an_unfinished_plan_has_no_clusters():
    p = plan(ising_grid(40, 40), memory_limit=0.01)
    assert not p.finished
    assert not p.fits(1e6)
    assert p.order == p.clusters == ()
    assert str(p).count("at least") == 4  # width, largest table, memory and work
    assert p.memory > 0
    with pytest.raises(ValueError, match="unfinished"):
        _ = p.program


def test_huge_tables_have_finite_figures():
    p = plan(random_graph(400, 4000, arity=2, card=(8, 9), seed=1), tries=1)
    assert np.isfinite([p.entries, p.memory, p.seconds()]).all()
    assert not p.fits(1e9)


def test_other_tasks_need_less_memory():
    p = plan(ising_grid(14, 14))
    assert p.memory_for(Task.PR) < p.memory_for(Task.MAR)
    assert p.memory_for(Task.MAP) < p.memory_for(Task.MAR)


@pytest.mark.slow
@pytest.mark.parametrize("task", PLAIN_TASKS)
def test_memory_is_honest(task: Task):
    """Compare the peak memory of a process, minus that of a small run of the same code, with the plan."""
    code = (
        "import resource, sys\n"
        "from equifactor import solve\n"
        "from equifactor.generators import ising_grid\n"
        "solve(ising_grid(4, 4), sys.argv[1], 'exact')\n"
        "small = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "solve(ising_grid(19, 19), sys.argv[1], 'exact')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - small)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, task], check=True, capture_output=True, text=True)
    used = int(done.stdout) * 1024
    said = plan(ising_grid(19, 19), memory_limit=4.0).memory_for(task)
    assert used < 1.2 * said + 2e7


@pytest.mark.parametrize(("n", "text"), [(10, "10 bytes"), (3.5 * 2**30, "3.5 GiB"), (2.0**80, "2^80 bytes")])
def test_bytes_in_words(n: float, text: str):
    assert format_bytes(n) == text


def test_a_plan_cut_short_is_not_kept() -> None:
    """With little work there may be no plan; a later call with more work still finds it."""
    graph = ising_grid(1, 301, seed=0)
    assert known_plan(graph, most_work=1.0) is None
    found = known_plan(graph)
    assert found is not None
    assert known_plan(graph, most_work=1.0) is found
