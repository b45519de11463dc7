"""Measuring two checkouts in turn, so that both meet the same weather on the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks._venvs import environment

HERE = Path(__file__).resolve().parents[1]
Times = dict[str, list[float]]  # row -> one time per round


def environment_of(tree: Path) -> dict[str, str]:
    """One thread, `equifactor` from that checkout, and its byte code kept, as it is after an installation."""
    kept = {name: value for name, value in environment().items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(tree)}


def checkout(text: str) -> Path:
    """A folder that holds `equifactor`, as an argument of the command line."""
    tree = Path(text).resolve()
    if not (tree / "equifactor" / "__init__.py").is_file():
        raise SystemExit(f"{text} is no checkout: it has no folder equifactor")
    return tree


def in_turn(measure: Callable[[Path], dict[str, float]], trees: Sequence[Path], rounds: int) -> dict[Path, Times]:
    """The times of every row in every checkout; each round visits all, in the opposite order of the one before.

    The first round of each is not counted: it compiles kernels and fills the caches of the disk.
    """
    found: dict[Path, Times] = {tree: {} for tree in trees}
    for tree in trees:
        measure(tree)
    for n in range(rounds):
        for tree in trees if n % 2 else reversed(trees):
            for row, seconds in measure(tree).items():
                found[tree].setdefault(row, []).append(seconds)
    return found


def spread(times: Sequence[float]) -> float:
    """How far the lower quartile of the times, at least the second best, lies above their minimum, as a share of it.

    The minimum is the figure that counts, because other programs only ever add to it. A quarter of the runs is within
    the spread, so a repetition of the whole measurement finds a minimum that differs by less.
    """
    ordered = sorted(times)
    return ordered[min(max(1, len(ordered) // 4), len(ordered) - 1)] / ordered[0] - 1.0


def compared(ours: Sequence[float], others: Sequence[float], least: float = 0.0) -> tuple[float, float, str]:
    """The ratio of the minima, the larger of the two spreads, and a word where one is slower beyond it.

    Args:
        ours: the times in this checkout.
        others: the times in the other one.
        least: a difference that means nothing, whatever the spreads are.
    """
    ratio, noise = min(ours) / min(others), max(spread(ours), spread(others), least)
    return ratio, noise, "SLOWER" if ratio > 1 + noise else "faster" if ratio < 1 / (1 + noise) else ""
