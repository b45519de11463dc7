"""The version of the code that runs: two machines with different code must not share results."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from equifactor._version import __version__

PACKAGE = Path(__file__).parents[1]  # The folder of the package.


@functools.cache
def code_version() -> str:
    """Return the version and a short hash of all source files and weights of the package."""
    digest = hashlib.sha256()
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.safetensors")]):
        digest.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"
