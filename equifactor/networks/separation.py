"""d-separation by reachability [Koller09, algorithm 3.1], with an open path as the reason.

A walk visits pairs of a variable and the direction in which it was entered. A chain or a fork is open at a variable
that is not given. A collider is open if the variable or one of its descendants is given.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

UP, DOWN = 0, 1  # A variable was entered from a child, or from a parent.


@dataclass(frozen=True)
class Separation:
    """Whether two sets of variables are d-separated; it is true or false in an `if`, and has the reason as text."""

    separated: bool
    path: tuple[int | str, ...] = ()  # an open path from one set to the other, if they are not separated
    text: str = ""  # the same path with arrows, such as `rain -> grass (given) <- sprinkler`

    def __bool__(self) -> bool:
        return self.separated

    def __str__(self) -> str:
        return "d-separated" if self.separated else f"not d-separated: {self.text} is an open path"


def closure(start: Collection[int], following: Sequence[Sequence[int]]) -> set[int]:
    """Return the variables that are reached along arrows from the start, which is included."""
    found, todo = set(start), list(start)
    while todo:
        for i in following[todo.pop()]:
            if i not in found:
                found.add(i)
                todo.append(i)
    return found


def open_path(
    parents: Sequence[Sequence[int]],
    children: Sequence[Sequence[int]],
    a: Collection[int],
    b: Collection[int],
    given: Collection[int],
    *,
    cut: Collection[int] = (),
) -> list[tuple[int, int]] | None:
    """Return a shortest open path from a to b as pairs of a variable and how it was entered; None if there is no path.

    The arrows out of the variables in `cut` count as removed. Cost O(V + E).
    """
    seen, targets, without = set(given), set(b), set(cut)
    kept = [[p for p in own if p not in without] for own in parents] if without else parents
    opened = closure(seen, kept)  # Colliders here have a given descendant, or are given.
    before: dict[tuple[int, int], tuple[int, int] | None] = {(i, UP): None for i in a if i not in seen}
    layer = list(before)
    while layer:
        following = []
        for place in layer:
            i, way = place
            if i in targets and i not in seen:
                path: list[tuple[int, int]] = []
                at: tuple[int, int] | None = place
                while at is not None:
                    path.append(at)
                    at = before[at]
                return path[::-1]
            steps: list[tuple[int, int]] = []
            if i not in seen:
                steps += [(c, DOWN) for c in children[i]] if i not in without else []
            if (way == UP and i not in seen) or (way == DOWN and i in opened):
                steps += [(p, UP) for p in kept[i]]
            for step in steps:
                if step not in before:
                    before[step] = place
                    following.append(step)
        layer = following
    return None


def path_text(path: Sequence[tuple[int, int]], names: Sequence[int | str], given: Collection[int]) -> str:
    """Return a path with arrows; a given variable and a collider that is opened by a descendant are marked."""
    words = [str(names[path[0][0]])]
    for n, (i, way) in enumerate(path[1:], 1):
        collides = way == DOWN and n + 1 < len(path) and path[n + 1][1] == UP
        mark = " (given)" if i in given else " (a descendant is given)" if collides else ""
        words.append(f"{'->' if way == DOWN else '<-'} {names[i]}{mark}")
    return " ".join(words)
