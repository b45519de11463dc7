"""The exceptions of this package.

Wrong input raises; a run that fails numerically is a `Status` value instead (see `equifactor.questions.result`).
"""

from __future__ import annotations

import reprlib


class EquifactorError(Exception):
    """The base of every error this package raises on purpose; its text is one sentence for the user."""


class ModelError(EquifactorError):
    """A factor graph that cannot be: bad cardinality, scope, table or evidence.

    `factor` and `variable` name the culprit, so that a reader can add the line of the file.
    """

    def __init__(self, message: str, *, factor: int | None = None, variable: int | None = None) -> None:
        super().__init__(message)
        self.factor = factor
        self.variable = variable


class FormatError(EquifactorError):
    """A file that cannot be read or written; the text says where, what was expected and what was found."""


class OptionError(EquifactorError):
    """An unknown solver, task, option or value; the text lists the valid ones."""


class MissingPackageError(OptionError):
    """Something needs a package that is not installed; the text says how to install it."""


class SolveError(EquifactorError):
    """There is no answer: `solve(.., strict=True)` did not end solved, or a `Result` lacks what it is asked for."""


class ClusterError(EquifactorError):
    """A cluster that does not answer, is gone, or runs other code; what was finished before is kept."""


class LostWorkError(ClusterError):
    """Work whose workers died again and again; the rest goes on."""


def brief(value: object) -> str:
    """A value as the sentences of errors show it: short and on one line, whatever it is."""
    return " ".join(reprlib.repr(value).split())
