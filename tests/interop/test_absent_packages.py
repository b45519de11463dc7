"""Packages that are not installed, and objects that are no models: one sentence each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import equifactor as ef
from equifactor.base.optional_packages import needed

COIN = ef.FactorGraph({"coin": ["heads", "tails"]}, [(["coin"], [0.5, 0.5])])


@pytest.mark.parametrize(
    ("call", "package"),
    [
        (lambda: ef.interop.to_pgmpy(COIN, "bayesian"), "pgmpy"),
        (lambda: ef.interop.to_pgmpy(COIN, "markov"), "pgmpy"),
        (lambda: ef.interop.to_pgmpy(COIN, "factor-graph"), "pgmpy"),
        (lambda: ef.interop.to_pyagrum(COIN, "bayesian"), "pyagrum"),
        (lambda: ef.interop.to_pyagrum(COIN, "markov"), "pyagrum"),
        (lambda: ef.interop.to_networkx(COIN), "networkx"),
        (lambda: ef.interop.to_pyg(COIN), "torch_geometric"),
    ],
)
def test_one_sentence(call: Callable[[], Any], package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not there
    with pytest.raises(ef.OptionError, match=rf"to_\w+ needs {package}: pip install {package}, or"):
        call()


def test_an_error_inside_the_package_is_its_own(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_installed.py").write_text("import something_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="something_that_is_not_there"):
        needed("half_installed", "to_half")


@pytest.mark.parametrize("read", [ef.interop.from_pgmpy, ef.interop.from_pyagrum, ef.interop.from_networkx])
def test_other_objects_are_refused(read: Callable[[Any], ef.FactorGraph]) -> None:
    for other in (None, 3, "model.bif", COIN):
        with pytest.raises(ef.ModelError, match=r"Expected a .*(pgmpy|pyAgrum|networkx).*, found"):
            read(other)
