"""Known answers of public models: ln Z, MAP scores and marginals of all models that fit 4 GiB."""

import os

import numpy as np
import pytest

from equifactor import Status, Task, solve
from equifactor.data import collection
from equifactor.data.collections import Instance
from equifactor.solvers.elimination.plan import plan

DATA = os.environ.get("EQUIFACTOR_DATA")
GIB = 4.0
QUICK = 2**22  # cluster entries: a tenth of a second

pytestmark = [pytest.mark.data, pytest.mark.skipif(not DATA, reason="EQUIFACTOR_DATA is not set")]


def check(instance: Instance, most_entries: float) -> bool:
    """Compare every known answer; return False if the plan exceeds the limits."""
    graph = instance.graph()
    steps = plan(graph, memory_limit=GIB)
    if not steps.fits(GIB) or steps.entries > most_entries:
        return False
    solver = f"exact(memory_limit={GIB})"
    sums = solve(graph, Task.MAR, solver)
    assert sums.status is Status.EXACT, instance.key
    if instance.log_z is not None:
        assert sums.log_z == pytest.approx(instance.log_z, rel=1e-10, abs=1e-8), instance.key
    if instance.record.get("marginals_verified"):
        want = instance.marginals()
        np.testing.assert_allclose(sums.marginals.values, want.values, atol=2e-6, err_msg=instance.key)
    best = solve(graph, Task.MAP, solver)
    assert best.status is Status.OPTIMAL, instance.key
    if instance.map_is_optimal:
        assert best.log_score == pytest.approx(instance.map_log_score, rel=1e-9, abs=1e-8), instance.key
    elif instance.map_log_score is not None:
        assert best.log_score >= instance.map_log_score - 1e-8, instance.key
    return True


def test_small_models():
    done = sum(check(instance, QUICK) for name in ("Grids", "MAR", "Segment") for instance in collection(DATA, name))
    assert done >= 25


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Grids", "DBN", "ObjDetect", "Segment", "MAR", "Promedas", "Protein"])
def test_everything_that_fits(name: str):
    assert sum(check(instance, np.inf) for instance in collection(DATA, name)) > 0
