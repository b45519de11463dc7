"""Model files: the weights of a network and its card in one `.safetensors` file. Nothing is ever unpickled."""

from __future__ import annotations

import os

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import EquifactorError, FormatError, ModelError
from equifactor.base.files import PathLike, reason, write_bytes
from equifactor.solvers.learned.model_card import KEY, ModelCard, read_card
from equifactor.solvers.learned.model_header import read_header
from equifactor.solvers.learned.model_weights import check_finite, check_parameters, check_weights, wrong_settings
from equifactor.solvers.learned.network import Network, build, find_network, network_kinds


@checks_types("path", "network", "card")
def save_model(path: PathLike, network: Network, card: ModelCard) -> None:
    """Write a network with its card (made by `ModelCard.of`), completely or not at all.

    Raise `ModelError` if a weight is not finite, because the file could not be used later.
    """
    tensors = {name: t.detach().cpu().contiguous() for name, t in network.state_dict().items()}
    name = next((name for name, t in tensors.items() if not bool(t.isfinite().all())), "")
    if name:
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
        raise wrong_settings(where, card, error) from None
    wanted = {name: (tuple(t.shape), str(t.dtype).removeprefix("torch.")) for name, t in network.state_dict().items()}
    check_weights(where, card, wanted, read_header(path))  # before any weight is read
    check_parameters(where, card, sum(p.numel() for p in network.parameters()))
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path of any kind
            tensors = load(file.read())
    except OSError as error:
        raise FormatError(f"{where}: the file cannot be read: {reason(error)}") from None
    except SafetensorError as error:
        raise FormatError(f"{where}: the safetensors header of this file is damaged ({error})") from None
    check_finite(where, {name: bool(t.isfinite().all()) for name, t in tensors.items()})
    network.load_state_dict(tensors, assign=True)
    return network
