"""Names chosen on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from equifactor.base.errors import OptionError


def chosen_names(what: str, text: str | None, names: Sequence[str]) -> tuple[str, ...]:
    """The names that a text with commas lists, in their own order; all of them where no text is given.

    Names may hold commas themselves, so the longest name that fits is taken.
    """
    if not text:
        return tuple(names)
    wanted, rest = set(), text.strip()
    while rest:
        name = max((n for n in names if rest == n or rest.startswith(n + ",")), key=len, default=None)
        if name is None:
            raise OptionError(f"there is no {what} {rest!r}; choose from: {'; '.join(names)}")
        wanted.add(name)
        rest = rest[len(name) :].lstrip(", ")
    return tuple(n for n in names if n in wanted)
