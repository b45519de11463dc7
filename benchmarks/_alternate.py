"""Measure two checkouts in turn, so that other work on the machine affects both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks._venvs import environment

HERE = Path(__file__).resolve().parents[1]
Times = dict[str, list[float]]  # row -> one time per round


def environment_of(tree: Path) -> dict[str, str]:
    """Return an environment with one thread and `equifactor` of that checkout, which keeps its byte code."""
    kept = {name: value for name, value in environment().items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(tree)}


def checkout(text: str) -> Path:
    """Return the folder of a checkout named on the command line; it must contain `equifactor`."""
    tree = Path(text).resolve()
    if not (tree / "equifactor" / "__init__.py").is_file():
        raise SystemExit(f"{text} is not a checkout: it has no folder equifactor.")
    return tree


def in_turn(measure: Callable[[Path], dict[str, float]], trees: Sequence[Path], rounds: int) -> dict[Path, Times]:
    """Return the times of every row in every checkout. Each round reverses the order of the round before.

    The first round does not count: it compiles kernels and fills the disk cache.
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
    """Return the relative distance of the lower quartile of the times (at least the second best) from the minimum.

    The minimum is the result, because other programs can only add to it. A quarter of the runs is within the spread.
    So if the whole measurement is repeated, the minimum differs by less than the spread.
    """
    ordered = sorted(times)
    return ordered[min(max(1, len(ordered) // 4), len(ordered) - 1)] / ordered[0] - 1.0


def compared(ours: Sequence[float], others: Sequence[float], least: float = 0.0) -> tuple[float, float, str]:
    """Return the ratio of the minima, the larger spread, and a word if one checkout is slower by more than the spread.

    Args:
        ours: the times in this checkout.
        others: the times in the other checkout.
        least: a difference below which the two count as equal for any spread.
    """
    ratio, noise = min(ours) / min(others), max(spread(ours), spread(others), least)
    return ratio, noise, "SLOWER" if ratio > 1 + noise else "faster" if ratio < 1 / (1 + noise) else ""
