"""Decode circuits from X and Z detectors together: error rates and CPU milliseconds per shot, beside other packages.

The circuits are those of `tesseract-decoder` with SI1000 noise, in the folder `tesseract` of EQUIFACTOR_DATA_QEC. Shots
come from Stim. Other packages run if they can be imported: `tesseract_decoder`, `relay_bp` (0.2.1), `ldpc` and
`pymatching`, which decode only the first shots, for `--seconds` seconds of CPU time each. `failures` compares them with
the last method of this package on these shots. Published rates and times come from `tesseract.csv`; its machine is not
named. Times are CPU time on one thread.

    python -m benchmarks.decoding_joint
    python -m benchmarks.decoding_joint --only bb72,surface7 --shots 5000 --methods "relay;pooled" --seconds 0
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import equifactor as ef
from benchmarks.decoding import Decode, Problem, _rate, rival_of, timed
from equifactor.decoding.iteration_spread import spread_of_shots
from equifactor.show.text_tables import aligned

CIRCUITS = ("surface7_X_r7_p0.002", "color7_X_r7_p0.002", "bb72_X_r6_p0.002", "bb144_X_r12_p0.002")
METHODS = ("relay", "pooled", "search(schedule=serial)")
RIVALS = ("tesseract", "relay-bp", "bp-osd", "pymatching")
TITLES = ["circuit", "decoder", "shots", "rate", "1 % aside", "ms", "p99 ms", "failures", "published", "its ms"]


def tesseract(circuit: Any) -> Decode | None:
    """Return Tesseract with its default settings; None if it is not installed."""
    if not find_spec("tesseract_decoder"):
        return None
    from tesseract_decoder import tesseract as package

    decoder = package.TesseractConfig(circuit.detector_error_model()).compile_decoder()
    return lambda shots: np.array([decoder.decode(shot) for shot in shots], bool)


def rows_of(path: Path, methods: list[str], shots: int, seconds: float, seed: int) -> Iterator[list[str]]:
    """Yield a row for every decoder on one circuit."""
    import lzma

    import stim

    circuit = stim.Circuit(lzma.decompress(path.read_bytes()).decode())
    found = circuit.compile_detector_sampler(seed=seed).sample(shots, separate_observables=True)
    code = replace(Problem.of_circuit(path, None, 1), shots=found[0], flips=found[1])
    name = "_".join(path.name.split("_")[:4])
    published = _published(path)
    last = np.zeros(0, bool)
    for text in methods:
        decoder = ef.decoding.Decoder(str(path), method=text)
        decoder.decode(code.shots[:2])
        start = time.process_time()
        result = decoder.decode(code.shots)
        ms = 1e3 * (time.process_time() - start) / shots
        last = result.errors(code.flips)
        aside = "" if result.gap is None else _rate(*result.post_selection(code.flips).at(0.01))
        late = ms * spread_of_shots(result.iterations)["p99"] / max(result.iterations.mean(), 1e-9)
        rate = _rate(shots, int(last.sum()))
        yield [name, str(result.method), str(shots), rate, aside, f"{ms:.3g}", f"{late:.3g}", "", *published]
    for rival in RIVALS if seconds else ():
        decode = tesseract(circuit) if rival == "tesseract" else rival_of(rival, code)
        if decode is None:
            continue
        flips, paid = timed(decode, code.shots, seconds)
        n = len(flips)
        wrong = int((flips != code.flips[:n]).any(axis=1).sum())
        failures = f"{int(last[:n].sum())} / {wrong}"
        yield [name, rival, str(n), _rate(n, wrong), "", f"{1e3 * paid:.3g}", "", failures, *published]


def _published(path: Path) -> tuple[str, str]:
    """Return the published rate and milliseconds of Tesseract."""
    with (path.parent / "tesseract.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["file"] == path.name:
                return row["tesseract_rate"], row["tesseract_ms"]
    return "", ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CIRCUITS), help="beginnings of names of circuits, by commas")
    parser.add_argument("--methods", default=";".join(METHODS), help="methods of this package, by semicolons")
    parser.add_argument("--shots", type=int, default=2000, help="shots for each circuit")
    parser.add_argument("--seed", type=int, default=1, help="seed of the shots")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="CPU time for each other package; 0 leaves them out"
    )
    parser.add_argument("--data", default=os.environ.get("EQUIFACTOR_DATA_QEC", ""), help="folder of circuits")
    options = parser.parse_args()
    if not options.data or not find_spec("stim") or not find_spec("scipy"):
        print("needs a folder of circuits (EQUIFACTOR_DATA_QEC), Stim and scipy")
        return
    rows = [TITLES]
    for begin in options.only.split(","):
        for path in sorted((Path(options.data) / "tesseract").glob(f"{begin}*.stim.xz")):
            for row in rows_of(path, options.methods.split(";"), options.shots, options.seconds, options.seed):
                rows.append(row)
                print("  ".join(row), flush=True)
    print("\n" + aligned(rows, right=(2, 5, 6, 8, 9), rule=True))


if __name__ == "__main__":
    main()
