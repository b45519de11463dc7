"""The search for generators in a separate process, which can be stopped; BLISS itself cannot.

The process reads two NumPy arrays (colours and edges) from stdin and writes the generators to stdout.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray


def generators_within(seconds: float, colours: IntArray, edges: IntArray) -> IntArray | None:
    """Return generators [k, n] of the symmetries of a coloured graph of n nodes; None if the time runs out."""
    data = io.BytesIO()
    np.savez(data, colours=colours, edges=edges)
    command = [sys.executable, "-P", "-c", "from equifactor.page.orbit_search import serve; serve()"]
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    setting = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    try:
        done = subprocess.run(
            command, input=data.getvalue(), capture_output=True, timeout=seconds, check=True, env=setting
        )
    except (subprocess.SubprocessError, OSError):
        return None
    found: IntArray = np.load(io.BytesIO(done.stdout))
    return found


def serve() -> None:
    """Read a graph from stdin and write its generators to stdout."""
    import igraph

    given = np.load(io.BytesIO(sys.stdin.buffer.read()))
    colours, edges = given["colours"], given["edges"]
    net = igraph.Graph(n=len(colours), edges=edges.tolist())
    found = net.automorphism_group(sh="fm", color=colours.tolist())
    np.save(sys.stdout.buffer, np.array(found, np.int64).reshape(-1, len(colours)))
