from __future__ import annotations

import json
from pathlib import Path

import pytest

from equifactor import FormatError, SolveError
from equifactor.answers import TrainingLog

RECORDS = [
    {"epoch": n, "loss": None if n == 0 else 1 / n, "kl": abs(n - 40) / 10 + 0.1, "rmse": 0.1, "best": 0.1,
     "seconds": 0.5, "graphs_per_second": 10.0}
    for n in range(100)
]  # fmt: skip


def test_what_it_tells() -> None:
    log = TrainingLog(RECORDS)
    assert (log.measure, log.best_epoch, len(log)) == ("kl", 40, 100)
    assert repr(log) == "TrainingLog(99 epochs, best kl 0.1 (4.1 at the start) in epoch 40)"
    assert log[3]["loss"] == 1 / 3
    assert log[:2].best_epoch == 1
    assert TrainingLog([]).best_epoch is None
    assert str(TrainingLog([])) == "0 epochs"


def test_html_is_short_and_has_the_last_epoch() -> None:
    html = TrainingLog(RECORDS)._repr_html_()
    assert html.count("<tr>") <= 31
    assert "every 4th is shown" in html
    assert "<bdi>99</bdi>" in html
    assert TrainingLog(RECORDS[:5])._repr_html_().count("<tr>") == 6
    assert "0" in TrainingLog([])._repr_html_()


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in RECORDS) + '{"epoch": 1', encoding="utf-8")
    assert TrainingLog.read(file).records == RECORDS  # the last line is being written
    assert len(TrainingLog.read(tmp_path / "mine.safetensors")) == 100
    with pytest.raises(FormatError, match=r"other\.jsonl: .*there is no such file"):
        TrainingLog.read(tmp_path / "other.jsonl")
    file.write_text('{"epoch": 0}\n[]\n{"epoch": 1}\n', encoding="utf-8")
    with pytest.raises(FormatError, match=r"mine\.jsonl:2: expected a line of a training log"):
        TrainingLog.read(file)


def test_picture_and_frame() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    ax = TrainingLog(RECORDS).plot()
    ax.figure.canvas.draw()
    assert ax.get_ylabel() == "validation kl"
    assert TrainingLog(RECORDS[:1]).plot().get_xlabel() == "epoch"
    with pytest.raises(SolveError, match="nothing to draw yet"):
        TrainingLog([]).plot()
    pyplot.close("all")
    pytest.importorskip("pandas")
    assert TrainingLog(RECORDS).to_frame().shape == (100, 7)
