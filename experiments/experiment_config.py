"""Reading what an experiment compares: `config.toml` in its folder, or a file of one's own."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from equifactor.base.errors import FormatError, OptionError
from experiments.bursty_experiment import BurstyExperiment
from experiments.map_experiment import MapExperiment
from experiments.marginal_experiment import MarginalExperiment

ROOT = Path(__file__).parent
MARGINAL = ("ising", "asymmetric", "transfer", "ablation")  # experiments on marginals, each a folder of this name
MAP = ("uai",)  # experiments on the most probable assignment


def load(name: str) -> MarginalExperiment | MapExperiment:
    """An experiment by the name of its folder, or from a TOML file; `task = "MAP"` in the file tells the two kinds."""
    path = Path(name) if name.endswith(".toml") else ROOT / name / "config.toml"
    if not path.is_file():
        raise OptionError(f"there is no experiment {name!r}; choose from: {', '.join((*MARGINAL, *MAP))}, or a .toml")
    values = read_toml(path)
    name = path.parent.name if path.name == "config.toml" else path.stem
    is_map = values.pop("task", "MAR") == "MAP"
    try:
        return MapExperiment.from_values(name, values) if is_map else MarginalExperiment.from_values(name, values)
    except (TypeError, KeyError) as error:
        raise FormatError(f"{path}: not {'a MAP' if is_map else 'an'} experiment: {error}") from None


def load_marginal(name: str) -> MarginalExperiment:
    """The config of an experiment, which has to be one on marginals."""
    experiment = load(name)
    if not isinstance(experiment, MarginalExperiment):
        raise OptionError(f"{name} is an experiment on MAP: use python -m experiments uai")
    return experiment


def load_map(name: str) -> MapExperiment:
    """The config of an experiment, which has to be one on MAP."""
    experiment = load(name)
    if not isinstance(experiment, MapExperiment):
        raise OptionError(f'{name} is an experiment on marginals; task = "MAP" is missing in it')
    return experiment


def load_bursty(name: str) -> BurstyExperiment:
    """The config of the experiment on bursty noise, by the name of its folder or from a TOML file."""
    path = Path(name) if name.endswith(".toml") else ROOT / name / "config.toml"
    try:
        return BurstyExperiment.from_values(path.parent.name, read_toml(path))
    except (TypeError, KeyError) as error:
        raise FormatError(f"{path}: not an experiment on bursty noise: {error}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FormatError(f"{path}: cannot read it: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{path}: not TOML: {error}") from None
