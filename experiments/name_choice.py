"""Names chosen on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from equifactor.base.errors import OptionError


def chosen_names(what: str, text: str | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that a comma-separated text lists, in the order of `names`; all names without a text.

    Names may contain commas themselves, so the longest name that fits is used.
    """
    if not text:
        return tuple(names)
    wanted, rest = set(), text.strip()
    while rest:
        name = max((n for n in names if rest == n or rest.startswith(n + ",")), key=len, default=None)
        if name is None:
            raise OptionError(f"There is no {what} {rest!r}; choose from: {'; '.join(names)}.")
        wanted.add(name)
        rest = rest[len(name) :].lstrip(", ")
    return tuple(n for n in names if n in wanted)
