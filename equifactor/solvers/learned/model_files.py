"""Model files: the weights of a network and its card in one `.safetensors` file. Nothing is ever unpickled."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from equifactor.base.errors import EquifactorError, FormatError, ModelError
from equifactor.base.files import PathLike, reason, write_bytes
from equifactor.solvers.learned.model_card import KEY, ModelCard, read_card
from equifactor.solvers.learned.model_header import read_header, shown
from equifactor.solvers.learned.network import Network, build, find_network, network_kinds

if TYPE_CHECKING:
    from torch import Tensor


def save_model(path: PathLike, network: Network, card: ModelCard) -> None:
    """Write a network with its card (made by `ModelCard.of`), completely or not at all.

    Raise `ModelError` if a weight is not finite, because the file could not be used later.
    """
    tensors = {name: t.detach().cpu().contiguous() for name, t in network.state_dict().items()}
    if name := _not_finite(tensors):
        raise ModelError(
            f"{os.fspath(path)}: the file was not written: the weights {name} of the {card.kind} are not finite."
        )
    write_bytes(path, save(tensors, {KEY: card.to_json()}))


def load_model(path: PathLike) -> tuple[Network, ModelCard]:
    """Return the network of a file, on the CPU, in the float type it was saved in, and its card.

    Raise `FormatError` if the file cannot be used.
    """
    card = read_card(path)
    return load_network(path, card), card


def load_network(path: PathLike, card: ModelCard) -> Network:
    """Return the network of a file whose card has been read already."""
    where = os.fspath(path)
    if find_network(card.kind) is None:
        raise FormatError(
            f"{where}: the file holds a model of the kind {card.kind!r}, made by equifactor {card.version}. "
            f"This version has the kinds {', '.join(network_kinds())}."
        )
    try:
        # On the device meta no memory is allocated, so absurd settings cost nothing, and no random number is drawn.
        with torch.device("meta"):
            network = build(card.kind, card.settings)
    except (EquifactorError, RuntimeError, TypeError, ValueError, ArithmeticError, MemoryError) as error:
        # Torch and Python raise the later classes for sizes that overflow.
        sentence = shown(str(error).splitlines()[0]) if str(error) else type(error).__name__
        raise FormatError(
            f"{where}: the settings in this file are not valid for {card.kind} in this version: {sentence}"
        ) from None
    # Shapes are compared by the header alone, before any weight is read.
    if mismatch := _mismatch(network.state_dict(), read_header(path).tensors):
        raise FormatError(f"{where}: the weights do not fit the settings of this {card.kind}: {mismatch}")
    learned = sum(p.numel() for p in network.parameters())
    if card.parameters != learned:
        raise FormatError(
            f"{where}: the card states {shown(card.parameters)} parameters, but the file holds {learned:,}."
        )
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path of any kind
            tensors = load(file.read())
    except OSError as error:
        raise FormatError(f"{where}: the file cannot be read: {reason(error)}") from None
    except SafetensorError as error:
        raise FormatError(f"{where}: the safetensors header of this file is damaged ({error})") from None
    if name := _not_finite(tensors):
        raise FormatError(f"{where}: the weights {name} are not finite. Train the model again.")
    network.load_state_dict(tensors, assign=True)
    return network


def _mismatch(wanted: dict[str, Tensor], found: dict[str, tuple[str, tuple[int, ...]]]) -> str:
    """Return the first difference in names, shapes or types, in words; empty text without a difference."""
    for name, tensor in wanted.items():
        if name not in found:
            return f"{name} is missing"
        dtype, shape = found[name]
        if tensor.shape != shape:
            return f"{name} has shape {list(shape)}, expected {list(tensor.shape)}"
        if tensor.is_floating_point() != ("F" in dtype):
            return f"{name} has the type {dtype}, expected {str(tensor.dtype).removeprefix('torch.')}"
    return next((f"the network has no weights named {shown(name)}" for name in sorted(found) if name not in wanted), "")


def _not_finite(tensors: dict[str, Tensor]) -> str:
    """Return the name of the first tensor with a value that is not finite, or empty text if all are finite."""
    return next((name for name, t in tensors.items() if not bool(t.isfinite().all())), "")
