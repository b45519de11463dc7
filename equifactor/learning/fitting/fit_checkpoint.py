"""The progress of a fit in a file, from which a run goes on: arrays and plain values, never code."""

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
    from equifactor.learning.fitting.data_table import DataTable
    from equifactor.learning.fitting.fit_method import FitContext


@dataclass(frozen=True)
class FitCheckpoint:
    """A file that belongs to one fit: the same method, structure, data and seed."""

    path: PathLike
    identity: str

    @classmethod
    def of(cls, method: str, graph: FactorGraph, table: DataTable, context: FitContext) -> FitCheckpoint | None:
        """The file of a fit, or None where none was asked for."""
        if context.checkpoint is None:
            return None
        s = graph.structure
        digest = hashlib.sha256(f"{method}|{context.seed}|{context.tied}|{sorted(context.fixed)}".encode())
        held_out = () if context.validation is None else (context.validation.states,)
        for array in (s.card, s.scope_ptr, s.scope_vars, graph.log_phi, table.states, table.weights, *held_out):
            digest.update(np.ascontiguousarray(array).tobytes())
        return cls(context.checkpoint, digest.hexdigest())

    def load(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """The values and arrays that were saved; None where there is no file."""
        try:
            with np.load(Path(self.path), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            values = json.loads(str(arrays.pop("values")))
            known = str(arrays.pop("identity"))
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever a file of another kind makes numpy raise
            raise FormatError(
                f"{self.path}: not a readable checkpoint of a fit ({type(error).__name__}); remove it to start anew"
            ) from None
        if known != self.identity:
            raise OptionError(
                f"{self.path}: it belongs to another fit: its structure, data, seed or settings differ; use the same, "
                "or remove it to start anew"
            )
        return values, arrays

    def save(self, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Replace the file, all at once."""
        data = io.BytesIO()
        texts = {"values": np.array(json.dumps(values)), "identity": np.array(self.identity)}
        np.savez(data, allow_pickle=False, **texts, **arrays)
        write_bytes(self.path, data.getvalue())
