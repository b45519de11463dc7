"""The table of all kinds of factors: the name and number of a kind, and the place of its class."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from equifactor.base.errors import OptionError, brief

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray, IntArray
    from equifactor.graph.structured_factor import StructuredFactor

Kind = TypeVar("Kind", bound="type[StructuredFactor]")

# The number of a kind is its place in this table. Number 0 stands for dense tables, which have no class. A kind of this
# package is one folder in `factors` and one line here. `register_kind` adds the kinds of other packages.
KINDS: dict[str, Any] = {
    "table": None,
    "sparse": "equifactor.factors.sparse:SparseTable",
    "parity": "equifactor.factors.parity:Parity",
    "clause": "equifactor.factors.clause:Clause",
    "count": "equifactor.factors.count:Counting",
    "noisy_or": "equifactor.factors.noisy_or:NoisyOr",
    "potts": "equifactor.factors.potts:Potts",
    "truncated_linear": "equifactor.factors.truncated_linear:TruncatedLinear",
    "noisy_max": "equifactor.factors.noisy_max:NoisyMax",
}


def register_kind(cls: Kind) -> Kind:
    """Make a kind of factor from outside the package known under its name `cls.kind`; also a class decorator.

    Every solver then takes its factors, through dense tables where the kind has no compiled kernels. A class of the
    same name from the same module replaces the earlier one, as when a cell of a notebook is run again.

    Raises:
        OptionError: if `cls` is not a kind of factor, or its name is taken.
    """
    from equifactor.graph.structured_factor import StructuredFactor

    if not (isinstance(cls, type) and issubclass(cls, StructuredFactor)):
        raise OptionError(
            f"register_kind expects a class that derives from equifactor.factors.StructuredFactor, found {brief(cls)}."
        )
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise OptionError(
            f"The class {cls.__qualname__} lacks {', '.join(missing)}. A kind of factor must define them."
        )
    name = getattr(cls, "kind", None)
    if not isinstance(name, str) or not name:
        raise OptionError(
            f"The class {cls.__qualname__} has no name. Set its attribute kind to a text such as 'parity'."
        )
    known = KINDS.get(name)
    if name in KINDS and not (isinstance(known, type) and _place(known) == _place(cls)):
        owner = _place(known) if isinstance(known, type) else known or "dense tables"
        raise OptionError(f"The kind {name!r} of {_place(cls)} is already taken by {owner}. Choose another name.")
    KINDS[name] = cls
    cls.number = kind_number(name)
    kind_class.cache_clear()
    return cls


def is_place_of(place: object, cls: type) -> bool:
    """Return whether an entry of the table names this class."""
    return place == _place(cls)


def _place(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def kind_number(name: str) -> int:
    """Return the number of a kind by its name."""
    return list(KINDS).index(name)


def kind_name(number: int) -> str:
    """Return the name of a kind, as `info` prints it."""
    return list(KINDS)[number]


@cache
def kind_class(number: int) -> type[StructuredFactor]:
    """Return the class of a kind other than `table`; only its own folder is imported."""
    place: Any = list(KINDS.values())[number]
    if isinstance(place, str):
        module, _, name = place.partition(":")
        place = getattr(importlib.import_module(module), name)
    found: type[StructuredFactor] = place
    return found


def kinds_with(attribute: str, kind: IntArray) -> BoolArray:
    """Return [F] whether an attribute of the class of each kind among `kind` [F] is set; False for dense tables."""
    numbers, place = np.unique(kind, return_inverse=True)
    found = [n > 0 and bool(getattr(kind_class(n), attribute)) for n in numbers.tolist()]
    return np.array(found, bool)[place]


def has_kernels(kind: IntArray) -> bool:
    """Return whether all kinds among `kind` [F] have compiled kernels."""
    return bool((kinds_with("has_kernels", kind) | (kind == 0)).all())


def registered_kinds(kind: IntArray) -> dict[int, type[StructuredFactor]]:
    """Return the classes of the kinds from outside the package among `kind` [F], by number."""
    places = list(KINDS.values())
    return {n: places[n] for n in np.unique(kind).tolist() if isinstance(places[n], type)}


def renumbered(kind: IntArray, registered: dict[int, type[StructuredFactor]]) -> IntArray:
    """Translate kind numbers `kind` [F] of another process into those of this one; register kinds it does not know."""
    changed = kind
    for number, cls in registered.items():
        own = cls.number if cls.number >= 0 else register_kind(cls).number
        if own != number:
            changed = np.where(kind == number, own, changed)
    return changed
