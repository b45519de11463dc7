"""What the shell offers when the tab key is pressed: names of solvers, tasks, formats, and files of the right kind.

Each function takes the beginning of a word and gives the words that continue it. Where it gives none, the shell offers
files as it always does. Everything here is asked at every press of a key, so that nothing heavy may be imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

Completer = Callable[[str], list[str]]


def words(*known: str) -> Completer:
    """Completes one of these words."""

    def complete(incomplete: str) -> list[str]:
        return _continued(incomplete, known)

    return complete


def solver_specs(incomplete: str) -> list[str]:
    """Names of solvers, and model files."""
    from equifactor.solving.registry import MODEL_SUFFIX, solver_names

    return [*_continued(incomplete, solver_names()), *_files(incomplete, (MODEL_SUFFIX,))]


def solvers_by_name(incomplete: str) -> list[str]:
    """Names of solvers alone."""
    from equifactor.solving.registry import solver_names

    return _continued(incomplete, solver_names())


def network_kinds(incomplete: str) -> list[str]:
    """Names of the solvers that can be trained."""
    from equifactor.solving.registry import SOLVERS

    return _continued(incomplete, [name for name, place in SOLVERS.items() if ".learned." in place])


def format_names(incomplete: str) -> list[str]:
    """Names of model formats."""
    from equifactor.formats import FORMATS

    return _continued(incomplete, FORMATS)


def public_collections(incomplete: str) -> list[str]:
    """Names of the public collections; after a comma the next one."""
    from equifactor.data.public import manifest

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _continued(last, dict.fromkeys(r["collection"] for r in manifest()))]


def model_files(incomplete: str) -> list[str]:
    """Model files, by their suffixes."""
    from equifactor.formats import FORMATS

    return _files(incomplete, [suffix for f in FORMATS.values() for suffix in f.suffixes])


def codes(incomplete: str) -> list[str]:
    """Codes for decoding: their names, and files of the formats that state one."""
    return [*_continued(incomplete, ("bb72", "bb144")), *_files(incomplete, (".dem", ".stim", ".alist", ".npz"))]


def decoding_methods(incomplete: str) -> list[str]:
    """Methods of decoding."""
    from equifactor.decoding.methods import METHODS

    return _continued(incomplete, sorted(METHODS))


def trained_models(incomplete: str) -> list[str]:
    """Files of trained networks."""
    from equifactor.solving.registry import MODEL_SUFFIX

    return _files(incomplete, (MODEL_SUFFIX,))


def _continued(incomplete: str, known: Iterable[str]) -> list[str]:
    """The words as they are, or else in small letters, for a shell takes only what continues what was typed."""
    known = list(known)
    exact = [word for word in known if word.startswith(incomplete)]
    return exact or [word.lower() for word in known if word.lower().startswith(incomplete)]


def _files(incomplete: str, suffixes: Iterable[str]) -> list[str]:
    """The files with these suffixes, also compressed, and folders.

    A shell puts a blank behind the only word that is left. So that a folder can be gone into, its contents are given in
    place of the only folder.
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
