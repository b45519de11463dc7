"""`equifactor solvers`: the solvers and their options."""

from __future__ import annotations

import re


def test_lists_each_and_its_options(command) -> None:
    from equifactor.solvers import solver_names
    from equifactor.solving.registry import solver_class

    lines = command("solvers").out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", *solver_names()]
    for name in solver_names():
        out = command("solvers", name).out
        assert solver_class(name).summary() in out
    assert re.search(r"^damping +float +0.0 +0 <= x < 1 +\S", command("solvers", "bp").out, re.MULTILINE)
    assert command("solvers", "pb").status == 2
