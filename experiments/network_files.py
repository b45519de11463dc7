"""Model files of learned solvers, of the package and of experiments, and the numbers on their cards."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from equifactor import Task
from equifactor.solvers.learned.learned_solver import shipped_weights
from equifactor.solvers.learned.model_card import read_card


def shipped_file(solver: str, task: Task) -> Path:
    """Return the file that comes with the package for a solver and a task; it may not exist."""
    return shipped_weights(solver, task)


def shipped_folder() -> Path:
    """Return the folder of the files that come with the package."""
    return shipped_weights("fe-net", Task.MAR).parent


def steps_of(path: Path) -> int:
    """Return the number of message-passing steps T that a network was made for."""
    return int(read_card(path).settings["steps"])


def parameters_of(path: Path) -> int:
    """Return the number of weights in a file."""
    return int(read_card(path).parameters)


def file_hash(path: Path, digits: int = 16) -> str:
    """Return the first hexadecimal digits of the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:digits]


def unpack_models(folder: Path) -> None:
    """Extract the model files that an experiment keeps in `models.zip` into its folder `models/`."""
    packed = folder / "models.zip"
    if packed.is_file():
        with zipfile.ZipFile(packed) as archive:
            missing = [name for name in archive.namelist() if not (folder / "models" / name).is_file()]
            archive.extractall(folder / "models", missing)
