"""Completions of the shell: names of solvers, tasks and formats, and files of the right kind.

Each function takes the beginning of a word and returns the words that continue it. If it returns no words, the shell
offers files as usual. The shell calls these functions at every press of the tab key, so they import nothing slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

Completer = Callable[[str], list[str]]


def words(*known: str) -> Completer:
    """Return a function that completes one of these words."""

    def complete(incomplete: str) -> list[str]:
        return _continued(incomplete, known)

    return complete


def solver_specs(incomplete: str) -> list[str]:
    """Return names of solvers, and model files."""
    from equifactor.solving.registry import MODEL_SUFFIX, solver_names

    return [*_continued(incomplete, solver_names()), *_files(incomplete, (MODEL_SUFFIX,))]


def solvers_by_name(incomplete: str) -> list[str]:
    """Return names of solvers and of decoding methods."""
    from equifactor.solving.registry import solver_names

    return [*_continued(incomplete, solver_names()), *decoding_methods(incomplete)]


def network_kinds(incomplete: str) -> list[str]:
    """Return names of the solvers that can be trained."""
    from equifactor.solving.registry import SOLVERS

    return _continued(incomplete, [name for name, place in SOLVERS.items() if ".learned." in place])


def format_names(incomplete: str) -> list[str]:
    """Return names of model formats."""
    from equifactor.formats import FORMATS

    return _continued(incomplete, FORMATS)


def public_collections(incomplete: str) -> list[str]:
    """Return names of the public collections; after a comma, complete the next name."""
    from equifactor.data.public import manifest

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _continued(last, dict.fromkeys(r["collection"] for r in manifest()))]


def model_files(incomplete: str) -> list[str]:
    """Return model files, by suffix."""
    from equifactor.formats import FORMATS

    return _files(incomplete, [suffix for f in FORMATS.values() for suffix in f.suffixes])


def codes(incomplete: str) -> list[str]:
    """Return the names of built-in codes, and files in the formats of codes."""
    return [*_continued(incomplete, ("bb72", "bb144")), *_files(incomplete, (".dem", ".stim", ".alist", ".npz"))]


def decoding_methods(incomplete: str) -> list[str]:
    """Return names of decoding methods."""
    from equifactor.decoding.methods import METHODS

    return _continued(incomplete, sorted(METHODS))


def trained_models(incomplete: str) -> list[str]:
    """Return files of trained networks."""
    from equifactor.solving.registry import MODEL_SUFFIX

    return _files(incomplete, (MODEL_SUFFIX,))


def _continued(incomplete: str, known: Iterable[str]) -> list[str]:
    """Return the words that start like the typed one; if no word does, compare and return them in lower case.

    A shell accepts only words that continue what was typed, so a lower-case beginning needs lower-case words.
    """
    known = list(known)
    exact = [word for word in known if word.startswith(incomplete)]
    return exact or [word.lower() for word in known if word.lower().startswith(incomplete)]


def _files(incomplete: str, suffixes: Iterable[str]) -> list[str]:
    """Return folders, and files with these suffixes, also compressed.

    A shell adds a blank after the only word that is left, which would end the path at a folder. So if only a folder is
    left, its contents are returned.
    """
    endings = tuple(suffix + packed for suffix in suffixes for packed in ("", ".gz", ".xz"))
    start = incomplete[: incomplete.rfind("/") + 1]
    found = []
    try:
        for entry in sorted(Path(start or ".").expanduser().iterdir()):
            if entry.name.startswith(incomplete[len(start) :]) and not entry.name.startswith("."):
                if entry.is_dir():
                    found.append(f"{start}{entry.name}/")
                elif entry.name.endswith(endings):
                    found.append(start + entry.name)
    except OSError:
        return []
    if len(found) == 1 and found[0].endswith("/"):
        return _files(found[0], suffixes) or found
    return found
