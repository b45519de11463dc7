"""Reading the config of an experiment: `config.toml` in its folder, or another TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from equifactor.base.errors import FormatError, OptionError
from experiments.bursty_experiment import BurstyExperiment
from experiments.map_experiment import MapExperiment
from experiments.marginal_experiment import MarginalExperiment

ROOT = Path(__file__).parent
MARGINAL = ("ising", "asymmetric", "transfer", "ablation")  # Experiments on marginals, each a folder of this name.
MAP = ("uai",)  # Experiments on the most probable assignment.


def load(name: str) -> MarginalExperiment | MapExperiment:
    """Return an experiment by the name of its folder, or from a TOML file. A file for MAP states `task = "MAP"`."""
    path = Path(name) if name.endswith(".toml") else ROOT / name / "config.toml"
    if not path.is_file():
        raise OptionError(
            f"There is no experiment {name!r}; choose from: {', '.join((*MARGINAL, *MAP))}, or pass a .toml file."
        )
    values = read_toml(path)
    name = path.parent.name if path.name == "config.toml" else path.stem
    is_map = values.pop("task", "MAR") == "MAP"
    try:
        return MapExperiment.from_values(name, values) if is_map else MarginalExperiment.from_values(name, values)
    except (TypeError, KeyError) as error:
        raise FormatError(
            f"{path}: this is not the config of {'a MAP' if is_map else 'an'} experiment: {error}"
        ) from None


def load_marginal(name: str) -> MarginalExperiment:
    """Return the config of an experiment on marginals."""
    experiment = load(name)
    if not isinstance(experiment, MarginalExperiment):
        raise OptionError(f"{name} is an experiment on MAP. Run python -m experiments uai.")
    return experiment


def load_map(name: str) -> MapExperiment:
    """Return the config of an experiment on MAP."""
    experiment = load(name)
    if not isinstance(experiment, MapExperiment):
        raise OptionError(f'{name} is an experiment on marginals. The config of a MAP experiment states task = "MAP".')
    return experiment


def load_bursty(name: str) -> BurstyExperiment:
    """Return the config of the experiment on bursty noise, by the name of its folder or from a TOML file."""
    path = Path(name) if name.endswith(".toml") else ROOT / name / "config.toml"
    try:
        return BurstyExperiment.from_values(path.parent.name, read_toml(path))
    except (TypeError, KeyError) as error:
        raise FormatError(f"{path}: this is not the config of an experiment on bursty noise: {error}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Read the values of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FormatError(f"{path}: the file cannot be read: {error.strerror}.") from None
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{path}: this is not a valid TOML file: {error}") from None
