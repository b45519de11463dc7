"""Decode circuits of many rounds in sliding windows, and as a whole: error rates, CPU time and memory.

The circuits are those of `tesseract-decoder` with SI1000 noise, in the folder `tesseract` of EQUIFACTOR_DATA_QEC, with
more rounds and, by `--noise`, with all probabilities multiplied. Shots come from Stim, and all decoders get the same.
`ms` is CPU time per shot on one thread. `held` is the largest number of detectors per shot that a run of windows holds
at a time, and `decoders` the number of different windows.

    python -m benchmarks.decoding_windows
    python -m benchmarks.decoding_windows --only surface5_X_r5_p0.002 --rounds 60 --windows 10:5,15:5 --shots 2000
"""

from __future__ import annotations

import argparse
import lzma
import os
import re
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import equifactor as ef
from benchmarks.decoding import _rate
from equifactor.show.text_tables import aligned

TITLES = ["circuit", "rounds", "decoder", "shots", "rate", "ms", "held", "decoders"]


def longer(text: str, rounds: int, noise: float) -> Any:
    """Return a circuit with a number of rounds, and with all probabilities of errors multiplied by `noise`."""
    import stim

    text = re.sub(r"REPEAT \d+", f"REPEAT {rounds - 1}", text)
    noisy = r"((?:DEPOLARIZE[12]|[XYZ]_ERROR|M[XYZR]*)\()([0-9.e-]+)\)"
    return stim.Circuit(re.sub(noisy, lambda found: f"{found[1]}{noise * float(found[2]):.12g})", text))


def rows_of(name: str, circuit: Any, options: argparse.Namespace) -> Iterator[list[str]]:
    """Yield a row for the whole circuit and for every size of windows."""
    shots, truth = circuit.compile_detector_sampler(seed=options.seed).sample(options.shots, separate_observables=True)
    begin = [name, str(options.rounds)]
    if not options.no_whole:
        decoder = ef.decoding.Decoder(circuit, options.method)
        decoder.decode(shots[:2])
        start = time.process_time()
        wrong = int(decoder.decode(shots).errors(truth).sum())
        ms = 1e3 * (time.process_time() - start) / len(shots)
        yield [*begin, "whole", str(len(shots)), _rate(len(shots), wrong), f"{ms:.3g}", str(shots.shape[1]), "1"]
    for text in options.windows.split(","):
        window, commit = (int(number) for number in text.split(":"))
        windows = ef.decoding.WindowDecoder(circuit, window=window, commit=commit, method=options.method)
        windows.decode(shots[:2])
        start, held = time.process_time(), 0
        run = windows.begin(len(shots))
        for layer in range(windows.num_layers):
            run.push(shots[:, windows.layers == layer])
            held = max(held, run.held)
        ms = 1e3 * (time.process_time() - start) / len(shots)
        wrong = int((run.flips != truth).any(axis=1).sum())
        yield [
            *begin, f"windows of {window}, {commit} decided", str(len(shots)), _rate(len(shots), wrong), f"{ms:.3g}",
            str(held), str(windows.num_decoders),
        ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", default="surface5_X_r5_p0.002,bb72_X_r6_p0.002", help="beginnings of names, by commas"
    )
    parser.add_argument("--rounds", type=int, default=60, help="number of rounds")
    parser.add_argument("--noise", type=float, default=1.0, help="factor of all probabilities")
    parser.add_argument("--windows", default="10:5,15:5", help="rounds of a window : rounds that it decides, by commas")
    parser.add_argument("--method", default="relay", help="method of this package")
    parser.add_argument("--shots", type=int, default=1000, help="shots for each circuit")
    parser.add_argument("--seed", type=int, default=1, help="seed of the shots")
    parser.add_argument("--no-whole", action="store_true", help="leave out the decoder that sees all rounds")
    parser.add_argument("--data", default=os.environ.get("EQUIFACTOR_DATA_QEC", ""), help="folder of circuits")
    options = parser.parse_args()
    if not options.data or not find_spec("stim"):
        print("needs a folder of circuits (EQUIFACTOR_DATA_QEC) and Stim")
        return
    rows = [TITLES]
    for begin in options.only.split(","):
        for path in sorted((Path(options.data) / "tesseract").glob(f"{begin}*.stim.xz")):
            circuit = longer(lzma.decompress(path.read_bytes()).decode(), options.rounds, options.noise)
            for row in rows_of("_".join(path.name.split("_")[:4]), circuit, options):
                rows.append(row)
                print("  ".join(row), flush=True)
    print("\n" + aligned(rows, right=(1, 3, 5, 6, 7), rule=True))


if __name__ == "__main__":
    main()
