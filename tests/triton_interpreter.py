"""Tests of Triton kernels: in Triton's interpreter, which needs no GPU, and on an NVIDIA GPU."""

import importlib.util
import os
from collections.abc import Iterator

import numpy as np
import pytest
import torch

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton, which the fused kernels need, is not installed."
)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="There is no NVIDIA GPU.")
needs_interpreter = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1",
    reason="The interpreter of Triton runs only if TRITON_INTERPRET=1 is set before Triton is imported.",
)


@pytest.fixture(autouse=True)
def whole_numbers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the interpreter of Triton 3.6 convert arrays of one number to bounds of loops, which NumPy 2.4 refuses.

    It computes logarithms of zero with NumPy, which warns.
    """
    if importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1":
        yield
        return
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, scope):  # type: ignore[no-untyped-def]
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patched)
    with np.errstate(all="ignore"):
        yield
