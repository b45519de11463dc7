"""`TrainingLog`: the record of a training run, epoch by epoch, from `train` or from the file beside a model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from equifactor.base.errors import FormatError, ModelError, OptionError, brief
from equifactor.base.files import read_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from equifactor.questions.frames import DataFrame

_NO_MEASURE = ("epoch", "loss", "best", "seconds", "graphs_per_second")  # Fields of a record that are not measures.


class TrainingLog(Sequence[Mapping[str, Any]]):
    """One record per epoch: `log[3]["loss"]`. Epoch 0 is the untrained network.

    `loss` is the training loss. `measure` names the validation measure that decides which weights are kept: `kl` for
    marginals, `error` for MAP.
    """

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        try:
            self.records = [dict(record) for record in records]
            for record in self.records:
                record["epoch"]
        except Exception:  # a foreign object may raise any error when it is read
            raise ModelError(
                f"A training log needs records with an epoch, found {brief(records)}. TrainingLog.read reads a file."
            ) from None

    @classmethod
    def read(cls, path: str | Path) -> TrainingLog:
        """Read the log of a run. `path` is the log (`.jsonl`), or the model file (`.safetensors`) beside it.

        An incomplete last line is ignored, so that the log of a running training can be read.
        """
        if not isinstance(path, (str, Path)):
            raise OptionError(f"The log of a training must be a path, found {brief(path)}.")
        file = Path(path)
        file = file.with_suffix(".jsonl") if file.suffix == ".safetensors" else file
        try:
            text = read_bytes(file).decode()
        except UnicodeDecodeError:
            raise FormatError(f"{file}: expected the log of a training run, found a file that is not text.") from None
        records = []
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            if not line.endswith("\n"):
                break
            try:
                record = json.loads(line)
                record["epoch"]
            except (ValueError, TypeError, KeyError, RecursionError):
                raise FormatError(f"{file}:{number}: expected a line of a training log, with an epoch.") from None
            records.append(record)
        return cls(records)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> TrainingLog: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | TrainingLog:
        return TrainingLog(self.records[index]) if isinstance(index, slice) else self.records[index]

    def __len__(self) -> int:
        return len(self.records)

    @property
    def measure(self) -> str | None:
        """The name of the measure on the validation graphs, None if the log is empty."""
        return next((name for name in (self.records or [{}])[0] if name not in _NO_MEASURE), None)

    @property
    def best_epoch(self) -> int | None:
        """The epoch with the best measure, None if no epoch has a measure."""
        name = self.measure or ""
        known = [r for r in self.records if r.get(name) is not None]
        return min(known, key=lambda r: r[name])["epoch"] if known else None

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with a row per epoch."""
        from equifactor.questions.frames import data_frame

        names = dict.fromkeys(name for record in self.records for name in record)
        return data_frame({name: [record.get(name) for record in self.records] for name in names})

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the loss and the measure of every epoch, and mark the best epoch; needs matplotlib."""
        from equifactor.show.training_picture import draw_training

        return draw_training(self, ax)

    def __repr__(self) -> str:
        return f"TrainingLog({self})"

    def __str__(self) -> str:
        best = next((r for r in self.records if r["epoch"] == self.best_epoch), None)
        if best is None or self.measure is None:
            return f"{len(self)} epochs"
        first, now = self.records[0].get(self.measure), best[self.measure]
        start = "" if first is None else f" ({first:.3g} at the start)"
        return f"{self.records[-1]['epoch']} epochs, best {self.measure} {now:.3g}{start} in epoch {best['epoch']}"

    def _repr_html_(self) -> str:
        from equifactor.show.html_tables import MOST_ROWS, facts_table, rows_table

        if not self.records:
            return facts_table("Training log", [("epochs", "0")])
        titles = list(self.records[-1])
        step = -(-len(self) // MOST_ROWS)
        rows = [[_shown(r.get(name)) for name in titles] for r in self.records[:-1:step][: MOST_ROWS - 1]]
        rows.append([_shown(self.records[-1].get(name)) for name in titles])  # The last epoch is always shown.
        title = str(self) if step == 1 else f"{self}; every {step}th is shown"
        return rows_table(title, titles, rows, count=len(rows), right=range(len(titles)))


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
