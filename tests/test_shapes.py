"""The shapes in annotations can be checked, and the tests check them everywhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "equifactor"
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if "jaxtyping" in path.read_text(encoding="utf-8")]
AXIS = re.compile(r"\*?[A-Za-z_]\w*|\d+|\d+\*[A-Za-z_]\w*")  # A name, any number of axes, a size, or a multiple.


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_axes_have_names(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") in ("Float", "Int", "Bool"):
            shape = ast.literal_eval(node.slice.elts[1])
            assert all(AXIS.fullmatch(axis) for axis in shape.split()), shape


def test_every_module_with_shapes_is_checked() -> None:
    torch = pytest.importorskip("torch")
    jaxtyping = pytest.importorskip("jaxtyping")
    pytest.importorskip("beartype")
    from equifactor.learning.training.losses import kl_per_graph
    from equifactor.solvers.learned.table_features import centred

    with pytest.raises(jaxtyping.TypeCheckError):
        centred(torch.zeros(3))
    with pytest.raises(jaxtyping.TypeCheckError):
        kl_per_graph(None, torch.zeros(3), torch.zeros(4))


def test_modules_with_shapes_hold_no_kernels() -> None:
    for path in FILES:
        assert not re.search(r"^\s*(from|import) (numba|equifactor\.kernels\.jit)", path.read_text(), re.MULTILINE)
