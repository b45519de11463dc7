"""Compare decoders with other packages on the same shots: error rates, and CPU time per shot.

Circuits are read from the folder in EQUIFACTOR_DATA_QEC (`bb144_X_r12_p0.003.stim.xz`, ..), which needs Stim. The
rivals `ldpc`, `relay_bp` (relay-bp 0.2.1) and `pymatching` run if they can be imported. Rivals decode only the first
shots, for `--seconds` seconds, and failures are compared on these shots. Times are CPU time on one thread. Published
rates come from `reference.csv` in the same folder.

    python -m benchmarks.decoding
    python -m benchmarks.decoding --only words --seconds 10
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import equifactor as ef
from equifactor.decoding.code_files import read_code
from equifactor.show.text_tables import aligned

INTERVAL = (-0.22628432386414646, 0.6216020925981884)  # The interval of memories of the published runs on bb144.
CIRCUITS = (
    ("bb144_X_r12_p0.003", "X", 10_000),
    ("bb144_X_r12_p0.004", "X", 2_000),
    ("surface7_X_r7_p0.003", "X", 20_000),
)
METHODS = {
    "min-sum": ("msl-bp", "min-sum(iterations=10000)"),
    "memory": ("mem-bp", "memory(iterations=10000)"),
    "bp-osd": ("bp-osd", "bp-osd(scale=1)"),  # the scale of the published runs
    "relay": ("relay-bp", f"relay(low={INTERVAL[0]}, high={INTERVAL[1]})"),
    "relay, serial": ("relay-bp", f"relay(low={INTERVAL[0]}, high={INTERVAL[1]}, schedule=serial)"),
    "learned-memory": ("relay-bp", "learned-memory"),
    "matching": ("pymatching", ""),
}
Decode = Callable[[np.ndarray], np.ndarray]  # shots [n, D] to flips [n, L]


@dataclass(frozen=True)
class Problem:
    """A code as scipy matrices [D, E] and [L, E], and shots [N, D] of the code with the flips [N, L] that happened."""

    checks: Any
    observables: Any
    priors: np.ndarray
    shots: np.ndarray
    flips: np.ndarray

    @classmethod
    def of_circuit(cls, path: Path, basis: str | None, count: int) -> Problem:
        """Return the problem of a circuit, decoded from the detectors of one basis, or of both."""
        from scipy.sparse import csc_matrix

        m = read_code(path, basis=basis).merged()[0]
        seen = np.diff(m.detector_ptr) > 0

        def matrix(rows: np.ndarray, ptr: np.ndarray, height: int) -> Any:
            return csc_matrix((np.ones(len(rows), np.uint8), rows, ptr), shape=(height, m.num_errors))[:, seen]

        checks = matrix(m.detectors, m.detector_ptr, m.num_detectors)
        observables = matrix(m.observables, m.observable_ptr, m.num_observables)
        return cls(checks, observables, m.priors[seen], *ef.decoding.ShotSampler(m, seed=1).sample(0, count))


def rival_of(name: str, code: Problem) -> Decode | None:
    """Return the rival with the settings of the published runs; None if it is not installed or lacks the method."""
    checks, observables, p = code.checks, code.observables, code.priors

    def flips_of(errors: np.ndarray) -> np.ndarray:
        return np.asarray(observables @ errors.T % 2, bool).T

    if name in ("msl-bp", "mem-bp", "relay-bp") and find_spec("relay_bp"):
        import relay_bp

        if name == "relay-bp":
            decoder = relay_bp.RelayDecoderF32(
                checks.tocsr(), error_priors=p, alpha=1.0, gamma0=0.15, pre_iter=80, num_sets=300, set_max_iter=60,
                gamma_dist_interval=INTERVAL, stop_nconv=5,
            )  # fmt: skip
        else:
            gamma = 0.15 if name == "mem-bp" else None
            decoder = relay_bp.MinSumBPDecoderF32(
                checks.tocsr(), error_priors=p, alpha=1.0, gamma0=gamma, max_iter=10000
            )
        return lambda shots: flips_of(decoder.decode_batch(shots.astype(np.uint8)))
    if name == "bp-osd" and find_spec("ldpc"):
        from ldpc import BpOsdDecoder

        osd = BpOsdDecoder(
            checks, error_channel=list(p), bp_method="minimum_sum", ms_scaling_factor=1.0, max_iter=80,
            osd_method="osd_cs", osd_order=10,
        )  # fmt: skip
        return lambda shots: flips_of(_words_of(osd, shots))
    if name == "pymatching" and find_spec("pymatching"):
        import pymatching

        if np.diff(checks.indptr).max() > 2:
            return None
        weights = np.log((1 - p) / p)
        matching = pymatching.Matching.from_check_matrix(checks, weights=weights, faults_matrix=observables)
        return lambda shots: np.asarray(matching.decode_batch(shots.astype(np.uint8)), bool)
    return None


def timed(decode: Decode, shots: np.ndarray, seconds: float) -> tuple[np.ndarray, float]:
    """Decode the first shots until the time is over. Return their flips, and CPU seconds per shot."""
    start = time.process_time()
    found: list[np.ndarray] = []
    size = 1
    while sum(map(len, found)) < len(shots) and time.process_time() - start < seconds:
        done = sum(map(len, found))
        found.append(decode(shots[done : done + size]))
        spent = (time.process_time() - start) / (done + size)
        size = max(1, min(512, int(seconds / 10 / max(spent, 1e-9))))
    flips = np.concatenate(found)
    return flips, (time.process_time() - start) / len(flips)


def rates_of(folder: Path) -> dict[tuple[str, str, str], tuple[int, int]]:
    """Return the shots and errors of the published runs by circuit, error rate and decoder."""
    names = {"bicycle_bivariate_144_12_12_memory_X": "bb144_X", "rotated_surface_code_memory_X": "surface7_X"}
    found = {}
    with (folder / "reference.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            wanted = row["joint_xyz"] == "False" and row["d"] in ("12", "7") and row["circuit"] in names
            if wanted:
                found[names[row["circuit"]], row["p"], row["decoder"]] = (int(row["shots"]), int(row["errors"]))
    return found


def circuit_rows(folder: Path, circuit: tuple[str, str, int], seconds: float) -> Iterator[list[str]]:
    """Yield one row for each method on a circuit."""
    name, basis, count = circuit
    code = Problem.of_circuit(folder / f"{name}.stim.xz", basis, count)
    published = rates_of(folder)
    stem, p = name.split("_r")[0], name.rpartition("_p")[2]
    rivals: dict[str, tuple[np.ndarray, float] | None] = {}
    for title, (rival, text) in METHODS.items():
        if rival not in rivals:
            decode = rival_of(rival, code)
            rivals[rival] = None if decode is None else timed(decode, code.shots, seconds)
        theirs, known = rivals[rival], published.get((stem, p, rival))
        row = [name, title, "", "", "", _rate(*known) if known else "", "", "", ""]
        wrong = np.zeros(0, bool)
        if text:
            decoder = ef.decoding.Decoder(code.checks, code.priors, code.observables, method=text)
            decoder.decode(code.shots[:2])
            start = time.process_time()
            result = decoder.decode(code.shots)
            cost = (time.process_time() - start) / count
            wrong = result.errors(code.flips)
            row[2:5] = [_rate(count, int(wrong.sum())), f"{result.iterations.mean():.4g}", f"{1e3 * cost:.3g}"]
        if theirs is not None:
            n = len(theirs[0])
            failed = int((theirs[0] != code.flips[:n]).any(axis=1).sum())
            ours = f"{int(wrong[:n].sum())} / {failed} of {n}" if text else _rate(n, failed)
            row[6:] = [f"{1e3 * theirs[1]:.3g}", ours, f"{theirs[1] / cost:.1f}" if text else ""]
        if text or theirs is not None:
            yield row


def word_rows(seconds: float, count: int = 10_000) -> Iterator[list[str]]:
    """Yield rows for words of a regular code of length 1000 and rate 1/2 over a binary symmetric channel of 0.06."""
    parity = ef.generators.LdpcCode.random(1000, 500, seed=1).parity
    errors = np.random.default_rng(1).random((count, 1000)) < 0.06
    shots = (errors.astype(np.float32) @ parity.T.astype(np.float32)) % 2 == 1
    for rule, theirs in (("sum-product", "product_sum"), ("min-sum", "minimum_sum")):
        for schedule in ("parallel", "serial"):
            decoder = ef.decoding.Decoder(parity, 0.06, method=rule, iterations=100, schedule=schedule)
            decoder.decode(shots[:2])
            start = time.process_time()
            result = decoder.decode(shots, corrections=True)
            cost = (time.process_time() - start) / count
            assert result.corrections is not None
            wrong = (result.corrections != errors).any(axis=1)
            row = ["(3,6), n 1000", f"{rule}, {schedule}", _rate(count, int(wrong.sum()))]
            row += [f"{result.iterations.mean():.4g}", f"{1e3 * cost:.3g}", "", "", "", ""]
            if find_spec("ldpc"):
                from ldpc import BpDecoder

                bp = BpDecoder(
                    parity, error_rate=0.06, bp_method=theirs, max_iter=100, schedule=schedule, ms_scaling_factor=1.0
                )
                found, paid = timed(partial(_words_of, bp), shots, seconds)
                n = len(found)
                failed = int((found != errors[:n]).any(axis=1).sum())
                row[6:] = [f"{1e3 * paid:.3g}", f"{int(wrong[:n].sum())} / {failed} of {n}", f"{paid / cost:.1f}"]
            yield row


def _words_of(decoder: Any, shots: np.ndarray) -> np.ndarray:
    return np.array([decoder.decode(s) for s in shots.astype(np.uint8)])


def _rate(shots: int, errors: int) -> str:
    rate = errors / shots
    return f"{rate:.3g} +- {math.sqrt(rate * (1 - rate) / shots):.1g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose code contains this text")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU time for each rival and code")
    parser.add_argument("--data", default=os.environ.get("EQUIFACTOR_DATA_QEC", ""), help="folder of circuits")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the numbers of shots")
    options = parser.parse_args()
    titles = ["code", "method", "rate", "iterations", "ms", "published", "rival ms", "failures ours / rival", "times"]
    rows = [titles]

    def show(new: Iterator[list[str]]) -> None:
        for row in new:
            rows.append(row)
            print(aligned([*rows[:1], row], right=(3, 4, 6, 8)).splitlines()[-1], flush=True)

    if options.only in "words":
        show(word_rows(options.seconds, int(10_000 * options.scale)))
    for name, basis, count in CIRCUITS:
        if options.only not in name:
            continue
        if not options.data or not find_spec("stim") or not find_spec("scipy"):
            print(f"{name}: needs a folder of circuits (EQUIFACTOR_DATA_QEC), Stim and scipy")
            continue
        show(circuit_rows(Path(options.data), (name, basis, int(count * options.scale)), options.seconds))
    print("\n" + aligned(rows, right=(3, 4, 6, 8), rule=True))


if __name__ == "__main__":
    main()
