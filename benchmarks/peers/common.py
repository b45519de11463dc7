"""Shared parts of the scripts of all peers: models from disk, timing, one JSON line as the answer. Needs only numpy.

Each script is run as `python run_NAME.py REQUEST`. REQUEST is a JSON object with `kind`, the path of the `model` and
the number of `repeats`. The script prints `{"seconds": .., "note": ..}` for the work of that kind, or `{"skip": why}`.
The optional field `check` shows that all peers did the same work. It is the marginal of the last variable (of the first
graph), or the best log score.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Model:
    """A model with one unary table per variable and one table per larger scope.

    Evidence is sliced in. The values of tables are not logarithms.
    """

    card: list[int]
    unary: list[np.ndarray]  # [V] tables [card]
    scopes: list[list[int]]  # of arity 2 or more
    tables: list[np.ndarray]

    @classmethod
    def load(cls, path: str) -> Model:
        with np.load(path) as data:
            card = data["card"].tolist()
            unary = np.split(data["unary"], np.cumsum(card)[:-1])
            scopes = [s.tolist() for s in np.split(data["scope_vars"], data["scope_ptr"][1:-1])]
            sizes = [int(np.prod([card[i] for i in s])) for s in scopes]
            flat = np.split(data["tables"], np.cumsum(sizes)[:-1])
            tables = [t.reshape([card[i] for i in s]) for t, s in zip(flat, scopes)]  # noqa: B905
        return cls(card, unary, scopes, tables)


@dataclass(frozen=True)
class Batch:
    """Binary pairwise models: fields [N, V], couplings [N, E] and the ends of each edge [N, E, 2]."""

    fields: np.ndarray
    couplings: np.ndarray
    edges: np.ndarray

    @classmethod
    def load(cls, path: str) -> Batch:
        with np.load(path) as data:
            return cls(data["fields"], data["couplings"], data["edges"])

    def log_unary(self) -> np.ndarray:
        """Return the log unary tables [N, V, 2]."""
        return np.stack((-self.fields, self.fields), axis=-1)

    def log_pair(self) -> np.ndarray:
        """Return the log pair tables [N, E, 2, 2]."""
        sign = np.array([[1.0, -1.0], [-1.0, 1.0]])
        return self.couplings[:, :, None, None] * sign


def best(work: Callable[[], Any], repeats: int) -> float:
    """Return the CPU seconds of the best run, which other programs disturb least."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


Work = Callable[[dict[str, Any]], dict[str, Any]]


def main(works: dict[str, Work]) -> None:
    """Answer the request on the command line."""
    request = json.loads(sys.argv[1])
    work = works.get(request["kind"])
    answer = {"skip": "the library has no such method"} if work is None else work(request)
    print("ANSWER " + json.dumps(answer))
