"""The command `equifactor`: one file per subcommand, the same public calls as the library.

Answers go to stdout or `-o`, notes and progress to stderr. Nothing heavy (torch, numba, rich, matplotlib) is
imported before a subcommand needs it, so that `equifactor --help` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from equifactor.cli.exit_status import guarded


def main(args: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (those of the process by default); returns the exit status."""
    return guarded(_run, list(sys.argv[1:] if args is None else args))


def _run(args: list[str]) -> int:
    from equifactor.cli.app import run  # within the guard: Ctrl-C may come while it is imported

    return run(args)
