"""Speed and memory of reading UAI files, compared with numpy's parsing of the same text.

The program writes large seeded model files into a temporary folder. Each file is read in a fresh process, so that the
peak of memory belongs to this file alone. The time is the best of several runs after a small warm-up that loads the
compiled kernels.

    python -m benchmarks.io
    python -m benchmarks.io --quick
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

SPEED = 40.0  # The target of speed: MB of text per second on one core.
MEMORY = 6.0  # The target of memory: bytes of memory per byte of text.


def typical(rng: np.random.Generator, size: int) -> Iterator[str]:
    """Yield the text of pairwise factors of 30 states, with six digits."""
    num_factors = max(1, size // (900 * 9))
    yield _header([30] * (num_factors + 1), [[i, i + 1] for i in range(num_factors)])
    for _ in range(num_factors):
        yield "\n900\n" + " ".join([f"{x:.6f}" for x in rng.random(900)]) + "\n"


def short(rng: np.random.Generator, size: int) -> Iterator[str]:
    """Yield the text of constraints over five variables of 8 states: tables of 0 and 1."""
    num_factors = max(1, size // (2 * 8**5))
    yield _header([8] * (num_factors + 4), [list(range(i, i + 5)) for i in range(num_factors)])
    for _ in range(num_factors):
        yield f"\n{8**5}\n" + " ".join([str(x) for x in rng.integers(0, 2, 8**5)]) + "\n"


def grid(rng: np.random.Generator, size: int) -> Iterator[str]:
    """Yield the text of a binary grid: many small factors with all digits of a float."""
    side = max(2, int((size / 190) ** 0.5))
    cells = np.arange(side * side).reshape(side, side)
    pairs = [*zip(cells[:, :-1].flat, cells[:, 1:].flat), *zip(cells[:-1].flat, cells[1:].flat)]  # noqa: B905
    yield _header([2] * side**2, [[int(i), int(j)] for i, j in pairs])
    for a, b in np.exp(rng.normal(size=(len(pairs), 2))).tolist():
        yield f"\n4\n {a!r} {b!r}\n {b!r} {a!r}\n"


def pairs(rng: np.random.Generator, size: int) -> Iterator[str]:
    """Yield the text of factors of two bits each with tables of 0 and 1: the most structure per byte of text."""
    num_factors = max(1, size // 20)
    first = rng.integers(0, 1000, num_factors)
    second = (first + rng.integers(1, 1000, num_factors)) % 1000
    yield _header([2] * 1000, np.stack((first, second), axis=1).tolist())
    for bits in rng.integers(0, 2, (num_factors, 4)).tolist():
        yield "4 {} {} {} {}\n".format(*bits)


KINDS: dict[str, Callable[[np.random.Generator, int], Iterator[str]]] = {
    "typical": typical,
    "short": short,
    "grid": grid,
    "pairs": pairs,
}


def _header(card: list[int], scopes: list[list[int]]) -> str:
    lines = ["MARKOV", str(len(card)), " ".join(map(str, card)), str(len(scopes))]
    return "\n".join(lines + [" ".join(map(str, [len(s), *s])) for s in scopes]) + "\n"


def peak_memory() -> int:
    """Return the largest resident size of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # Unlike ru_maxrss, VmHWM does not begin with the size of the parent.
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure(path: Path, repeats: int) -> dict[str, float]:
    """Return seconds and peak memory of the reader, and seconds of numpy. Call this function in a separate process."""
    from equifactor.formats.uai import parse_uai, read_uai

    parse_uai(b"MARKOV 1 2 1 1 0 2 0.5 0.25", "warm-up", small=0)
    before = peak_memory()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        graph = read_uai(path)
        seconds.append(time.perf_counter() - start)
        entries = graph.structure.num_entries
        del graph
    memory = peak_memory() - before
    text = path.read_bytes().split(b"\n", 1)[1].decode()
    numpy_seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        np.fromstring(text, sep=" ")
        numpy_seconds.append(time.perf_counter() - start)
    return {
        "size": path.stat().st_size, "entries": entries, "seconds": min(seconds), "numpy": min(numpy_seconds),
        "memory": memory,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Speed and memory of the UAI reader, beside numpy's float parsing of the same text.",
        epilog="example: python -m benchmarks.io --megabytes 60 --kind typical short",
    )
    parser.add_argument("--megabytes", type=float, default=60, help="size of each file (default 60)")
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS), help="which files to make")
    parser.add_argument("--repeats", type=int, default=3, help="runs, the best of which counts (default 3)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="files of 4 MB, one run")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, args.repeats)))
        return
    size, repeats = (4e6, 1) if args.quick else (args.megabytes * 1e6, args.repeats)
    head = ("file", "MB", "entries", "MB/s", "numpy MB/s", "ratio", "memory", "target")
    print("{:8} {:>6} {:>11} {:>5} {:>10} {:>6} {:>7}  {}".format(*head))
    with tempfile.TemporaryDirectory() as folder:
        for kind in args.kind:
            path = Path(folder) / f"{kind}.uai"
            with path.open("w") as handle:
                handle.writelines(KINDS[kind](np.random.default_rng(args.seed), int(size)))
            command = [sys.executable, __file__, "--measure", str(path), "--repeats", str(repeats)]
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            megabytes = row["size"] / 1e6
            speed, memory = megabytes / row["seconds"], row["memory"] / row["size"]
            met = "met" if speed >= SPEED and memory < MEMORY else "missed"
            numpy_speed = megabytes / row["numpy"]
            print(
                f"{kind:8} {megabytes:6.1f} {row['entries']:11,} {speed:5.0f} {numpy_speed:10.0f} "
                f"{speed / numpy_speed:6.1f} {memory:6.1f}x  {met}"
            )
    print(f"target: {SPEED:.0f} MB/s or more on one core, memory below {MEMORY:.0f} times the text")


if __name__ == "__main__":
    main()
