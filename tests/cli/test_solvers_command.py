"""`equifactor solvers`: the solvers and their options."""

from __future__ import annotations

import re


def test_lists_each_and_its_options(command) -> None:
    from equifactor.solvers import solver_names
    from equifactor.solving.registry import solver_class

    listed = command("solvers")
    assert "equifactor solvers relay" in listed.err
    lines = listed.out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", *solver_names()]
    for name in solver_names():
        out = command("solvers", name).out
        assert solver_class(name).summary() in out
    assert re.search(r"^damping +float +0.0 +0 <= x < 1 +\S", command("solvers", "bp").out, re.MULTILINE)
    assert command("solvers", "pb").status == 2


def test_describes_decoding_methods(command) -> None:
    from equifactor.decoding import METHODS

    for name in METHODS:
        out = command("solvers", name).out
        assert out.startswith(f"{name}: ")
        assert re.search(r"^iterations +int +\d+ +1 <= x +\S", out, re.MULTILINE)
    assert '--method "class(width=20)"' in command("solvers", "class").out
    assert re.search(r"^solutions +int +5 ", command("solvers", "relay").out, re.MULTILINE)
    assert "equifactor solvers relay" in command("decode", "--help").out
    assert "The methods of decoding are bp-osd, class, learned-memory" in command("solvers", "bposd").err


def test_describes_methods_of_fitting(command) -> None:
    from equifactor.learning.fitting.fitter import METHODS

    for name in METHODS:
        out = command("solvers", name).out
        assert out.startswith(f"{name}: ")
        assert f"equifactor fit MODEL DATA --method {name} --set" in out
    assert re.search(r"^restarts +int +0 +0 <= x +number of random starts", command("solvers", "em").out, re.MULTILINE)


def test_the_list_of_learned_solvers_is_that_of_their_classes() -> None:
    from equifactor.cli.solvers_command import _symmetries
    from equifactor.solvers.learned.listed_solvers import LISTED
    from equifactor.solving.registry import SOLVERS, solver_class

    learned = [name for name, place in SOLVERS.items() if place.startswith("equifactor.solvers.learned.")]
    assert sorted(LISTED) == sorted(learned)
    for name, row in LISTED.items():
        cls = solver_class(name)
        assert row == (" ".join(cls.tasks), _symmetries(cls), cls.summary())
