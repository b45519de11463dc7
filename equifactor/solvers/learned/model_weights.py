"""The weights of a model file: compared with what a network needs, and read without torch."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import EquifactorError, FormatError
from equifactor.base.options import check_names
from equifactor.solvers.learned.model_header import Header, read_header, read_tensors, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from equifactor.base.files import PathLike
    from equifactor.solvers.learned.model_card import ModelCard
    from equifactor.solvers.learned.network_config import NetworkConfig

Shapes = dict[str, tuple[int, ...]]


def read_weights(
    path: PathLike, card: ModelCard, config_class: type[NetworkConfig], shapes_of: Any
) -> tuple[NetworkConfig, dict[str, NDArray[np.float32]]]:
    """Return the settings and weights of a file; `shapes_of` gives the shapes of all weights from the settings.

    Raise `FormatError` if the file cannot be used.
    """
    where = os.fspath(path)
    try:
        check_names(card.kind, card.settings, list(config_class.__dataclass_fields__))
        config = config_class(**card.settings)
        shapes: Shapes = shapes_of(config)
    except (EquifactorError, TypeError, ValueError, ArithmeticError) as error:
        raise wrong_settings(where, card, error) from None
    header = read_header(path)  # Shapes are compared by the header alone, before any weight is read.
    check_weights(where, card, {name: (shape, "float32") for name, shape in shapes.items()}, header)
    check_parameters(where, card, sum(map(math.prod, shapes.values())))
    weights = read_tensors(path, header)
    check_finite(where, {name: bool(np.isfinite(values).all()) for name, values in weights.items()})
    return config, weights


def wrong_settings(where: str, card: ModelCard, error: Exception) -> FormatError:
    """Return the error for settings that make no network."""
    sentence = shown(str(error).splitlines()[0]) if str(error) else type(error).__name__
    return FormatError(f"{where}: the settings in this file are not valid for {card.kind} in this version: {sentence}")


def check_weights(
    where: str, card: ModelCard, wanted: Mapping[str, tuple[tuple[int, ...], str]], header: Header
) -> None:
    """Raise `FormatError` unless a file has exactly the wanted weights: the shape and the type of each name."""
    if difference := _difference(wanted, header.tensors):
        raise FormatError(f"{where}: the weights do not fit the settings of this {card.kind}: {difference}")


def check_parameters(where: str, card: ModelCard, learned: int) -> None:
    """Raise `FormatError` unless the card states the number of learned weights."""
    if card.parameters != learned:
        raise FormatError(
            f"{where}: the card states {shown(card.parameters)} parameters, but the file holds {learned:,}."
        )


def check_finite(where: str, is_finite: Mapping[str, bool]) -> None:
    """Raise `FormatError` for the first tensor with a value that is not finite."""
    for name, fine in is_finite.items():
        if not fine:
            raise FormatError(f"{where}: the weights {name} are not finite. Train the model again.")


def _difference(
    wanted: Mapping[str, tuple[tuple[int, ...], str]], found: Mapping[str, tuple[str, tuple[int, ...]]]
) -> str:
    """Return the first difference in names, shapes or types, in words; empty text without a difference."""
    for name, (shape, wanted_type) in wanted.items():
        if name not in found:
            return f"{name} is missing"
        dtype, stored = found[name]
        if shape != stored:
            return f"{name} has shape {list(stored)}, expected {list(shape)}"
        if ("float" in wanted_type) != ("F" in dtype):
            return f"{name} has the type {dtype}, expected {wanted_type}"
    return next((f"the network has no weights named {shown(name)}" for name in sorted(found) if name not in wanted), "")
