"""Checkpoints: the progress of a fit in a file from which a run can continue. The file never contains code."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import FormatError, OptionError
from equifactor.base.files import write_bytes

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.learning.fitting.data_rows import DataRows
    from equifactor.learning.fitting.fit_method import FitContext


@dataclass(frozen=True)
class FitCheckpoint:
    """A file that belongs to one fit, which is given by its method, structure, data and seed."""

    path: PathLike
    identity: str

    @classmethod
    def of(cls, method: str, graph: FactorGraph, data: DataRows, context: FitContext) -> FitCheckpoint | None:
        """Return the checkpoint of a fit, or None if the user did not ask for one."""
        if context.checkpoint is None:
            return None
        s = graph.structure
        digest = hashlib.sha256(f"{method}|{context.seed}|{context.tied}|{sorted(context.fixed)}".encode())
        held_out = () if context.validation is None else (context.validation.states,)
        for array in (s.card, s.scope_ptr, s.scope_vars, graph.log_phi, data.states, data.weights, *held_out):
            digest.update(np.ascontiguousarray(array).tobytes())
        return cls(context.checkpoint, digest.hexdigest())

    def load(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """Return the values and arrays that were saved; None if the file does not exist."""
        try:
            with np.load(Path(self.path), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            values = json.loads(str(arrays.pop("values")))
            known = str(arrays.pop("identity"))
        except FileNotFoundError:
            return None
        except Exception as error:  # NumPy raises many types for files of another kind.
            raise FormatError(
                f"{self.path}: the file is not a readable checkpoint of a fit ({type(error).__name__}). "
                "Remove it to start again."
            ) from None
        if known != self.identity:
            raise OptionError(
                f"{self.path}: the checkpoint belongs to a fit with another structure, data, seed or settings. Repeat "
                "that fit, or remove the file to start again."
            )
        return values, arrays

    def save(self, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Replace the file atomically."""
        buffer = io.BytesIO()
        texts = {"values": np.array(json.dumps(values)), "identity": np.array(self.identity)}
        np.savez(buffer, allow_pickle=False, **texts, **arrays)
        write_bytes(self.path, buffer.getvalue())
