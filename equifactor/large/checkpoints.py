"""Checkpoints of a large run, from which it continues after a kill.

A checkpoint is a folder. Every process writes its messages to a file of its own. `state.json` names the files of the
last complete checkpoint and is replaced when all of them are written, so a kill at any time leaves a whole checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import FormatError, OptionError
from equifactor.base.files import PathLike, check_writable, make_folder, reason

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.large.exchange import Exchange

log = logging.getLogger("equifactor")


class Checkpoints:
    """The checkpoints of one run in a folder.

    Args:
        folder: created if it does not exist.
        model: what tells models apart: a checkpoint of another model is refused.
        start: the number of the first edge of this process.
        exchange: the processes of the run.
    """

    def __init__(self, folder: PathLike, model: dict[str, Any], start: int, exchange: Exchange) -> None:
        make_folder(folder)
        check_writable(Path(folder) / "state.json")
        self.folder, self.model, self.start, self.exchange = Path(folder), model, start, exchange

    def write(self, iteration: int, messages: IntArray, x: IntArray, log_odds: FloatArray) -> None:
        """Write a checkpoint, and remove the one before it; if that fails, warn and keep the one before it."""
        own = self.folder / f"messages-{iteration}-{self.start}.npy"
        shared = self.folder / f"variables-{iteration}.npz"
        problem = ""
        try:
            _save(own, messages)
            if self.exchange.rank == 0:
                with shared.open("wb") as handle:
                    np.savez(handle, x=x, log_odds=log_odds)
        except OSError as error:
            problem = reason(error)
        is_whole = not self.exchange.largest(int(bool(problem)))  # All processes have written their files now.
        if is_whole and self.exchange.rank == 0:
            try:
                self._replace(iteration)
            except OSError as error:
                problem, is_whole = reason(error), False
        if problem:
            log.warning(
                "%s: cannot write a checkpoint: %s. The run continues; an earlier checkpoint stays as it is.",
                self.folder, problem,
            )  # fmt: skip
        if not is_whole:
            for path in (own, shared) if self.exchange.rank == 0 else (own,):
                with contextlib.suppress(OSError):
                    path.unlink()

    def _replace(self, iteration: int) -> None:
        """Let the state name the files of this iteration, and remove those of others."""
        text = json.dumps({"iteration": iteration, "model": self.model})
        temporary = self.folder / "state.json.tmp"
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.folder / "state.json")
        kept = {f"messages-{iteration}", f"variables-{iteration}"}
        for old in (*self.folder.glob("messages-*.npy"), *self.folder.glob("variables-*.npz")):
            if "-".join(old.stem.split("-")[:2]) not in kept:
                with contextlib.suppress(OSError):
                    old.unlink()

    def read(self, engine: Any, num_edges: int) -> int:
        """Set the state of an engine to the last checkpoint; return its iteration, or 0 without a checkpoint."""
        try:
            state = json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
            iteration, model = int(state["iteration"]), state["model"]
        except FileNotFoundError:
            return 0
        except Exception:  # JSON may be of any shape, with numbers such as Infinity.
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
                part = _checked(np.load(path, mmap_mode="r"), engine.scale.dtype, *engine.messages.shape[:2])
                # The run may continue with another number of processes, whose edges lie in several files.
                low, high = max(begin, self.start), min(begin + part.shape[-1], self.start + num_edges)
                if high > low:
                    engine.restore(low - self.start, part[..., low - begin : high - begin])
                    covered += high - low
            with (self.folder / f"variables-{iteration}.npz").open("rb") as handle, np.load(handle) as variables:
                x = _checked(variables["x"], np.int32, len(engine.log_odds), engine.scale.held)
                log_odds = _checked(variables["log_odds"], np.float32, *engine.log_odds.shape)
            if np.isnan(log_odds).any():
                raise ValueError("log odds are NaN")
            engine.restore_variables(x, log_odds)
        except Exception as error:  # NumPy raises many types for damaged files.
            raise FormatError(
                f"{self.folder}: the checkpoint is damaged ({error}). Remove this folder to start again."
            ) from None
        if covered != num_edges:
            raise FormatError(f"{self.folder}: the checkpoint lacks messages. Remove this folder to start again.")
        return iteration


def _checked(array: np.ndarray, dtype: Any, *shape: int) -> np.ndarray:
    """Return the array; raise `ValueError` if its type or first axes are not those that this run writes."""
    if array.dtype != dtype or array.shape[: len(shape)] != shape:
        raise ValueError(f"an array of {array.dtype} has the shape {array.shape}")
    return array


def _save(path: Path, array: np.ndarray) -> None:
    with path.open("wb") as handle:
        np.save(handle, array)
        handle.flush()
        with contextlib.suppress(OSError):
            os.fsync(handle.fileno())
