"""The marginals of all variables of a graph, ragged but stored flat."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, brief
from equifactor.graph.reading.inputs import variable_number
from equifactor.kernels.pointers import ptr_of
from equifactor.show.text_tables import aligned, shown

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph.structure import Structure


_SHOWN = 20  # Variables that `print` shows at most. Chosen by hand.


class Marginals(Sequence["FloatArray"]):
    """One probability vector per variable: `m[3]` is `p(X_3 = .)`; a sequence of numpy views.

    `values [X]` holds the vectors one after the other, and `ptr [V+1]` says where each begins. The marginals of a
    `Result` know the names of the variables: `m["rain"]`. `print(m)` shows a table, and `m.items()` yields names with
    vectors.
    """

    __slots__ = ("ptr", "structure", "values")

    @checks_types("values", "ptr", "structure")
    def __init__(self, values: FloatArray, ptr: IntArray, structure: Structure | None = None) -> None:
        if np.ndim(values) != 1 or np.ndim(ptr) != 1 or not len(ptr):
            raise ModelError("Marginals need the values [X] and where each vector begins [V+1].")
        self.values = values
        self.ptr = ptr
        self.structure = structure  # of the graph, for its names

    @classmethod
    def from_list(cls, vectors: Sequence[Sequence[float] | FloatArray]) -> Marginals:
        """Return marginals from one vector per variable."""
        try:
            own = [np.array(v, float, ndmin=1) for v in vectors]
            return cls(np.concatenate([np.zeros(0), *own]), ptr_of([len(v) for v in own]))
        except (TypeError, ValueError):
            raise ModelError(f"Marginals need a vector of numbers per variable, found {brief(vectors)}.") from None

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @overload
    def __getitem__(self, index: int | str) -> FloatArray: ...
    @overload
    def __getitem__(self, index: slice) -> list[FloatArray]: ...
    def __getitem__(self, index: int | str | slice) -> FloatArray | list[FloatArray]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        try:
            i = operator.index(index)  # type: ignore[arg-type]
        except TypeError:
            i = variable_number(index, self.structure.index_of_name if self.structure else {}, len(self))
        i += len(self) if i < 0 else 0
        if not 0 <= i < len(self):
            raise IndexError(f"variable {index} is out of range. There are {len(self)} variables.")
        found = self.values[self.ptr[i] : self.ptr[i + 1]]
        if not len(found):
            raise ModelError(f"Variable {index} is not among the targets, so it has no marginal. Add it to targets=.")
        return found

    def __contains__(self, variable: object) -> bool:
        """Return whether a variable has marginals, by name or number."""
        try:
            return len(self[variable]) > 0  # type: ignore[call-overload]
        except (IndexError, ModelError):
            return False

    def items(self) -> Iterator[tuple[int | str, FloatArray]]:
        """Yield each variable with its probabilities, by name or, without names, by number."""
        names: Sequence[int | str] = (self.structure.variable_names if self.structure else None) or range(len(self))
        return ((name, p) for name, p in zip(names, self, strict=True) if len(p))

    def __iter__(self) -> Iterator[FloatArray]:
        """Yield the vector of each variable, which is empty if the variable was not asked for."""
        return (self.values[first:last] for first, last in itertools.pairwise(self.ptr.tolist()))

    def __str__(self) -> str:
        """Return a table of variables, states and probabilities; it shows the first variables of a large graph."""
        rows: list[tuple[str, str, str]] = [("variable", "state", "probability")]
        for i, (name, p) in enumerate(itertools.islice(self.items(), _SHOWN)):
            states = self.structure.states_of(i) if self.structure else range(len(p))
            rows += [("" if k else str(name), str(states[k]), shown(x)) for k, x in enumerate(p.tolist())]
        more = f"\n.. and {len(self) - _SHOWN} more variables" if len(self) > _SHOWN else ""
        return aligned(rows, right=(2,), rule=True) + more

    def __repr__(self) -> str:
        return f"Marginals({len(self)} variables, {len(self.values)} states)"
