"""Circuits as d-DNNF files."""

from pathlib import Path

import numpy as np
import pytest

import equifactor as ef
from equifactor import Clause, FactorGraph, FormatError, OptionError
from equifactor.answers import Circuit


def test_d_dnnf_files(tmp_path: Path) -> None:
    graph = FactorGraph(
        [2] * 12, [([i, (i + 1) % 12, (i + 5) % 12], Clause([True, i % 2 == 0, i % 3 == 0])) for i in range(11)]
    )
    circuit = ef.compile_circuit(graph)
    for form in ("c2d", "d4"):
        circuit.write_nnf(tmp_path / "a.nnf", form=form)
        back = Circuit.read_nnf(tmp_path / "a.nnf", num_vars=12)
        assert back.count() == circuit.count() == round(np.exp(ef.solve(graph, "PR", "brute").log_z))
        np.testing.assert_allclose(back.marginals()[3], circuit.marginals()[3])
    with pytest.raises(OptionError, match="c2d or d4"):
        circuit.write_nnf(tmp_path / "a.nnf", form="sdd")
    path = tmp_path / "b.nnf"
    path.write_text("nnf 6 4 3\nL 1\nL -2\nA 2 0 1\nL -1\nO 1 2 2 3\nA 0\n")  # (1 and not 2) or not 1; then true
    assert Circuit.read_nnf(path).count() == 8
    path.write_text("nnf 5 4 3\nL 1\nL -2\nA 2 0 1\nL -1\nO 1 2 2 3\n")
    read = Circuit.read_nnf(path)
    assert read.count() == 6  # variable 2 is free where 1 is false, and 3 is free
    np.testing.assert_allclose(read.marginals()[0], [2 / 3, 1 / 3])
    # The same as d4 writes it: nodes in any order, literals on edges, free variables left out.
    path.write_text("o 1 0\na 2 0\nt 3 0\nf 4 0\n2 3 -2 0\n1 2 1 0\n1 3 -1 0\n1 4 0\n")
    assert Circuit.read_nnf(path).count() == 3
    assert Circuit.read_nnf(path, num_vars=3).count() == 6


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nnf 2 0 1\nL 1\n",
        "nnf 1 0 1\nL 2\n",
        "nnf 2 1 1\nL 1\nA 1 1\n",
        "nnf 3 2 1\nL 1\nL -1\nA 2 0 1\n",
        "x",
        "o 1 0\n1 2 0\n",
        "o 1 0\no 2 0\n1 2 1 0\n2 1 -1 0\n",
        "t 1 0\n1 1 0\n",
        "o 1 0\nt 2 0\n1 2 1\n",
        "a 1 0\nt 2 0\n1 2 1 0\n1 2 -1 0\n",
        "o 1 0\no 1 0\n",
    ],
)
def test_malformed_d_dnnf(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.nnf"
    path.write_text(text)
    with pytest.raises(FormatError, match="expected d-DNNF"):
        Circuit.read_nnf(path)


def test_a_file_of_a_few_bytes_with_many_variables_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.nnf"
    path.write_text("nnf 1 0 4000000000\nL 4000000000\n")
    with pytest.raises(FormatError, match="a larger number of GiB"):
        Circuit.read_nnf(path)
