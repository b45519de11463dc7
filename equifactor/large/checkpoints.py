"""Checkpoints of a large run, from which it continues after a kill.

A checkpoint is a folder. Every process writes its messages to a file of its own. `state.json` names the files of the
last complete checkpoint and is replaced when all of them are written, so a kill at any time leaves a whole checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import FormatError, OptionError
from equifactor.base.files import PathLike, make_folder, reason

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.large.exchange import Exchange


class Checkpoints:
    """The checkpoints of one run in a folder.

    Args:
        folder: created if it does not exist.
        model: what tells models apart: a checkpoint of another model is refused.
        start: the number of the first edge of this process.
        exchange: the processes of the run.
    """

    def __init__(self, folder: PathLike, model: dict[str, Any], start: int, exchange: Exchange) -> None:
        self.folder, self.model, self.start, self.exchange = Path(folder), model, start, exchange
        make_folder(folder)

    def write(self, iteration: int, messages: IntArray, x: IntArray, log_odds: FloatArray) -> None:
        """Write a checkpoint, and remove the one before it."""
        own = self.folder / f"messages-{iteration}-{self.start}.npy"
        shared = self.folder / f"variables-{iteration}.npz"
        try:
            _save(own, messages)
            if self.exchange.rank == 0:
                with shared.open("wb") as handle:
                    np.savez(handle, x=x, log_odds=log_odds)
            self.exchange.wait_for_all()
            if self.exchange.rank == 0:
                text = json.dumps({"iteration": iteration, "model": self.model})
                temporary = self.folder / "state.json.tmp"
                temporary.write_text(text, encoding="utf-8")
                temporary.replace(self.folder / "state.json")
                kept = {f"messages-{iteration}", f"variables-{iteration}"}
                for old in (*self.folder.glob("messages-*.npy"), *self.folder.glob("variables-*.npz")):
                    if "-".join(old.stem.split("-")[:2]) not in kept:
                        old.unlink()
        except OSError as error:
            raise FormatError(f"{self.folder}: cannot write the checkpoint: {reason(error)}.") from None

    def read(self, engine: Any, num_edges: int) -> int:
        """Set the state of an engine to the last checkpoint; return its iteration, or 0 without a checkpoint."""
        try:
            state = json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
            iteration, model = int(state["iteration"]), state["model"]
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, KeyError, TypeError):
            raise FormatError(f"{self.folder}: state.json is damaged. Remove this folder to start again.") from None
        if model != self.model:
            raise OptionError(
                f"{self.folder}: this checkpoint belongs to another model or precision. Name another folder, or remove "
                "this one."
            )
        covered = 0
        try:
            for path in self.folder.glob(f"messages-{iteration}-*.npy"):
                begin = int(path.stem.rpartition("-")[2])
                part = np.load(path, mmap_mode="r")
                # The run may continue with another number of processes, whose edges lie in several files.
                low, high = max(begin, self.start), min(begin + part.shape[-1], self.start + num_edges)
                if high > low:
                    engine.restore(low - self.start, part[..., low - begin : high - begin])
                    covered += high - low
            with np.load(self.folder / f"variables-{iteration}.npz") as variables:
                engine.restore_variables(variables["x"], variables["log_odds"])
        except (OSError, ValueError, KeyError) as error:
            raise FormatError(f"{self.folder}: the checkpoint is damaged ({error}). Remove this folder.") from None
        if covered != num_edges:
            raise FormatError(f"{self.folder}: the checkpoint lacks messages. Remove this folder to start again.")
        return iteration


def _save(path: Path, array: np.ndarray) -> None:
    with path.open("wb") as handle:
        np.save(handle, array)
        handle.flush()
        with contextlib.suppress(OSError):
            os.fsync(handle.fileno())
