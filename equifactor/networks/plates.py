"""Plates: one conditional table for every member of a group, such as every student in every course."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.base.options import did_you_mean
from equifactor.graph.reading.inputs import as_list
from equifactor.graph.structured_factor import StructuredFactor
from equifactor.networks.stated_tables import parents_and_table

if TYPE_CHECKING:
    from equifactor.networks.stated_tables import States, Tables

    Plates = Mapping[str, int | Sequence[str]]

_MOST = 2**24  # The largest number of variables that a table may stand for. Chosen by hand.
# Such as `grade[student, course]`, or `grade[student][t-1]` in a network in time.
_INDEXED = re.compile(r"(.+?)\[((?!t(?:-1)?\])[^\[\]]+)\](\[t(?:-1)?\])?")


def repeated(
    tables: Tables, states: States | None, plates: Plates
) -> tuple[dict[str, Any], dict[str, Any], tuple[tuple[int, ...], ...]]:
    """Return the tables and states of all members of the plates, and the places of the tables that are one.

    Args:
        tables: as `BayesianNetwork` takes them. A name such as `grade[student, course]` stands for one variable for
            each student and course. Its parents may have the same plates, or fewer.
        states: the same for states.
        plates: the members of each plate, or their number.
    """
    if not isinstance(plates, Mapping):
        raise ModelError(f"plates= must be a mapping from plate to its members, found {brief(plates)}.")
    members = {name: _members(name, given) for name, given in plates.items()}
    if states is not None and not (isinstance(states, Mapping) and all(isinstance(name, str) for name in states)):
        raise ModelError(f"states= must be a mapping from the name of a variable to its states, found {brief(states)}.")
    found: dict[str, Any] = {}
    tied: list[tuple[int, ...]] = []
    for name, stated in tables.items():
        before = len(found)
        parents, table = parents_and_table(name, stated)
        own = _plates_of(name, members)
        for parent in parents:
            beyond = [p for p in _plates_of(parent, members) if p not in own]
            if beyond:
                raise ModelError(
                    f"The table of {name} names the parent {parent!r}. Its plate {beyond[0]!r} is not in {name}. "
                    "A variable depends on one member of a plate, so give it this plate as well."
                )
        if math.prod(len(members[p]) for p in own) > _MOST:
            raise ModelError(f"The plates of {name} have more than {_MOST:,} members together.")
        for member in _combinations(own, members):
            above = [_named(parent, members, member) for parent in parents]
            found[_named(name, members, member)] = (above, table) if above else table
        if own and not isinstance(table, StructuredFactor):
            tied.append(tuple(range(before, len(found))))
    named = {
        _named(name, members, member): given
        for name, given in (states or {}).items()
        for member in _combinations(_plates_of(name, members), members)
    }
    return found, named, tuple(group for group in tied if len(group) > 1)


def _members(name: str, given: object) -> list[str]:
    if isinstance(given, (int, np.integer)) and not isinstance(given, (bool, np.timedelta64)) and 0 < given <= _MOST:
        return [str(n) for n in range(given)]
    listed = as_list(given)
    if not listed or len({*map(str, listed)}) < len(listed):
        raise ModelError(f"The plate {name} needs a number of members or a list of their names, found {brief(given)}.")
    return [str(member) for member in listed]


def _plates_of(name: str, members: Mapping[str, Any]) -> list[str]:
    """Return the plates in the brackets of a name; none if it has no brackets."""
    match = _INDEXED.fullmatch(name)
    plates = [p.strip() for p in match[2].split(",")] if match else []
    for plate in plates:
        if plate not in members:
            raise ModelError(
                f"{name!r} names the plate {plate!r}, which is not in plates=; {did_you_mean(plate, members)}"
            )
    return plates


def _combinations(plates: Sequence[str], members: Mapping[str, list[str]]) -> Iterator[dict[str, str]]:
    for chosen in product(*(members[p] for p in plates)):
        yield dict(zip(plates, chosen, strict=True))


def _named(name: str, members: Mapping[str, Any], member: Mapping[str, str]) -> str:
    """Return the name with members in place of the plates, such as `grade[anna,math]`."""
    match = _INDEXED.fullmatch(name)
    if match is None:
        return name
    return f"{match[1]}[{','.join(member[p] for p in _plates_of(name, members))}]{match[3] or ''}"
