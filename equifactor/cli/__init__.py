"""The command `equifactor`: one file per subcommand, the same public calls as the library.

Answers go to stdout or `-o`, notes and progress to stderr. Torch, Numba, rich and matplotlib are imported only by the
subcommands that need them, so that `equifactor --help` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

_USE_KERNELS = ("compare", "sample", "solve")  # The commands after which missing kernels are compiled.


def main(args: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (by default those of the process) and return the exit status."""
    try:
        from equifactor.cli.exit_status import guarded

        return guarded(_run, list(sys.argv[1:] if args is None else args))
    except KeyboardInterrupt:  # during the import above, or a second time while the first Ctrl-C is handled
        if sys.stderr is not None:
            sys.stderr.write("equifactor: interrupted\n")
        return 130


def _run(args: list[str]) -> int:
    from equifactor.cli.app import run  # imported inside the guard, which also handles Ctrl-C during imports

    status = run(args)
    if args[:1] and args[0] in _USE_KERNELS:
        from equifactor.cli.background_compiling import compile_in_background

        compile_in_background()
    return status
