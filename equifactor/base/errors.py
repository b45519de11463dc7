"""The exceptions of this package.

Wrong input raises an exception. A run that fails numerically ends with a `Status` instead (`equifactor.base.status`).
"""

from __future__ import annotations

import reprlib

_MAX_TEXT = 1_600  # Characters of the text of an error at most: twenty lines of a terminal.


class EquifactorError(Exception):
    """The base of every error this package raises on purpose; its text is one sentence for the user.

    The middle of a text that is too long is left out: a name in a file may have a million characters.
    """

    def __init__(self, message: str = "") -> None:
        message = str(message)
        if len(message) > _MAX_TEXT:
            message = f"{message[: _MAX_TEXT // 2]} [..] {message[-_MAX_TEXT // 2 :]}"
        super().__init__(message)


class ModelError(EquifactorError):
    """An invalid factor graph: a bad cardinality, scope, table or evidence.

    `factor` and `variable` are the numbers of the invalid part, so that a file reader can add its line.
    """

    def __init__(self, message: str, *, factor: int | None = None, variable: int | None = None) -> None:
        super().__init__(message)
        self.factor = factor
        self.variable = variable


class FormatError(EquifactorError):
    """A file that cannot be read or written; the text names the place, what was expected and what was found."""


class OptionError(EquifactorError):
    """An unknown solver, task, option or value; the text lists the valid ones."""


class MissingPackageError(OptionError):
    """Something needs a package that is not installed; the text says how to install it."""


class SolveError(EquifactorError):
    """A missing answer: `solve(.., strict=True)` did not end solved, or a `Result` lacks what was asked for."""


class MissingAnswerError(SolveError, AttributeError):
    """An answer that a result does not have; as an `AttributeError`, it makes `hasattr(result, "log_z")` False."""


class ClusterError(EquifactorError):
    """A cluster that does not respond, has stopped, or runs other code; finished work is kept."""


class LostWorkError(ClusterError):
    """A job whose workers died repeatedly; the other jobs go on."""


def brief(value: object) -> str:
    """Return any value as error messages show it: short and on one line."""
    return " ".join(reprlib.repr(value).split())
