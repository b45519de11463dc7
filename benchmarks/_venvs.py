"""One virtual environment per peer, created on demand, because their dependencies conflict."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from equifactor.base.cores import THREADS

SCRIPTS = Path(__file__).parent / "peers"
_ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
    THREADS: "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


@dataclass(frozen=True)
class Peer:
    """A library to compare with: its packages for pip, and the import statement of the scripts."""

    name: str
    packages: tuple[str, ...]
    bare: tuple[str, ...] = ()  # packages that are installed without their dependencies
    statement: str = ""

    @property
    def imports(self) -> str:
        return self.statement or f"import {self.name}"


PEERS = (
    # PGMax asks for tensorflow, jupyter and sphinx, and does not run with a newer jax.
    Peer(
        "pgmax",
        ("jax==0.4.38", "jaxlib==0.4.38", "numba", "scipy", "tqdm", "joblib"),
        ("pgmax",),
        "from pgmax import fgraph, infer",
    ),
    Peer("factorgraph", ("factorgraph",)),
    Peer("pyagrum", ("pyagrum",)),
    Peer("pgmpy", ("pgmpy",), statement="from pgmpy.inference import BeliefPropagation"),
    Peer("cotengra", ("cotengra", "opt_einsum", "autograd")),
    Peer("pytoulbar2", ("pytoulbar2", "numpy")),
    Peer("ldpc", ("ldpc",), statement="from ldpc import BpDecoder"),
)


def environment() -> dict[str, str]:
    """Return an environment in which every library uses one thread."""
    return {**os.environ, **_ONE_THREAD}


def python_of(peer: str, cache: Path) -> Path:
    """Return the interpreter of a peer; for equifactor itself, this interpreter."""
    if peer == "equifactor":
        return Path(sys.executable)
    return cache / peer / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install(peer: Peer, cache: Path, timeout: float) -> str | None:
    """Create the environment of a peer. Return None, or the reason if it failed."""
    python = python_of(peer.name, cache)
    try:
        if not python.exists():
            cache.mkdir(parents=True, exist_ok=True)
            subprocess.run([sys.executable, "-m", "venv", str(cache / peer.name)], check=True, timeout=timeout)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *peer.packages], check=True, timeout=timeout)
        if peer.bare:
            subprocess.run([*pip, "--no-deps", *peer.bare], check=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return f"not installed within {timeout:.0f} s"
    except (OSError, subprocess.CalledProcessError) as error:
        return f"not installed: {error}"
    return None
