"""Exit statuses, and the one place that turns an exception into a sentence and a status."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
from collections.abc import Callable
from enum import IntEnum

from equifactor.base.errors import EquifactorError, OptionError

DEBUG = "EQUIFACTOR_DEBUG"  # the environment variable that turns on the traceback of an unexpected error


class Exit(IntEnum):
    """The exit statuses of the process; docs/command-line.md lists them."""

    DONE = 0
    UNSOLVED = 1  # a model without an answer; under --strict also an unsolved status
    NO = 1  # the answer is no: models are not isomorphic, or a claim does not hold
    USAGE = 2
    BAD_INPUT = 3  # unreadable or invalid input, unwritable output
    BUG = 70  # an error of this package; EX_SOFTWARE of sysexits
    INTERRUPTED = 130  # Ctrl-C: 128 + SIGINT, the convention of shells
    PIPE_CLOSED = 141  # the reader of stdout has gone: 128 + SIGPIPE, without a message


def guarded(run: Callable[[list[str]], int], args: list[str]) -> int:
    """Run the command; an exception becomes one sentence on stderr and an exit status, never a traceback."""
    log = logging.getLogger("equifactor")
    log.setLevel(logging.INFO)
    log.handlers = [_Notes()]
    try:
        status = run(args)
        if sys.stdout is not None:
            sys.stdout.flush()  # so that a full disk or a closed pipe shows here rather than at exit
        return status
    except KeyboardInterrupt:
        say("interrupted")
        return Exit.INTERRUPTED
    except Exception as error:
        if _pipe_closed(error):
            _discard_stdout()
            return Exit.PIPE_CLOSED
        sentence = describe(error)
        if sentence is None:
            if os.environ.get(DEBUG):
                raise
            from equifactor.solving.plugins import blame

            if (where := blame(error)) is not None:
                say(f"{where} (set {DEBUG}=1 for the traceback)")
                return Exit.BAD_INPUT
            say(f"this is a bug, please report it: {type(error).__name__}: {error} (set {DEBUG}=1 for the traceback)")
            return Exit.BUG
        say(sentence)
        if isinstance(error, OSError):
            _discard_stdout()  # Otherwise the interpreter fails again at exit, on the same full disk.
        usage = isinstance(error, (OptionError, ModuleNotFoundError)) or _is_usage(error)
        return Exit.USAGE if usage else Exit.BAD_INPUT


def describe(error: Exception) -> str | None:
    """Return the sentence for the user, or None for an unexpected exception."""
    if isinstance(error, EquifactorError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        from equifactor.base.optional_packages import explained

        known = explained(error, "this command")
        return None if known is error else str(known)
    if isinstance(error, MemoryError):
        return "there is not enough memory for this model: close other programs, or use a smaller model"
    if isinstance(error, RecursionError):
        return "the input is nested too deeply to be read"
    if isinstance(error, OSError):
        where = error.filename or "<stdout>"
        return f"{where}: {(error.strerror or str(error)).lower()}"
    if _is_usage(error):
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "equifactor"
        return f"{_of_usage(error)} (see {command} --help)"
    return None


def say(sentence: str) -> None:
    """Write a note to stderr, marked with the name of the command."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):  # stderr may be closed
            print(f"equifactor: {' '.join(sentence.split())}", file=sys.stderr, flush=True)


def terminal_width() -> int | None:
    """Return the width of the terminal in characters; None for a file or a pipe, whose text must not be wrapped."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


class _Notes(logging.Handler):
    """A handler that shows log messages of the library as notes of the command."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def _is_usage(error: Exception) -> bool:
    # By attributes, because some releases of typer include their own copy of click.
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _of_usage(error: Exception) -> str:
    """Return what is wrong with the arguments; for an unknown option, suggest the closest one."""
    name, known = getattr(error, "option_name", None), getattr(error, "possibilities", None)
    if not isinstance(name, str) or type(error).__name__ != "NoSuchOption":
        return str(error.format_message()).rstrip(".")  # type: ignore[attr-defined]
    from equifactor.base.options import did_you_mean

    return f"there is no option {name}; {did_you_mean(name, known or ())}".rstrip("; ")


def _pipe_closed(error: Exception) -> bool:
    return isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError)


def _discard_stdout() -> None:
    """Redirect stdout to nothing; otherwise the interpreter reports an error about the rest of its buffer."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
