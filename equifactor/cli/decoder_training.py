"""`equifactor train learned-memory --task DECODE`: weights for a decoder, from codes instead of models."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equifactor.base.errors import OptionError
from equifactor.base.options import check_names, format_value
from equifactor.solving.registry import MODEL_SUFFIX

if TYPE_CHECKING:
    from equifactor.decoding import ErrorModel

_USED = ("seed", "device", "time_limit")  # The settings of a training run that apply to decoders as well.


def train_decoder(kind: str, data: list[str], out: str, own: dict[str, Any], settings: dict[str, Any]) -> None:
    """Train the network of a decoder and write its weights.

    Args:
        kind: `learned-memory`, the only network that can be trained to decode.
        data: codes, each as CODE, CODE:PRIOR or CIRCUIT.stim:BASIS.
        out: the file of weights.
        own: the settings of `--set`: those of `MemoryTraining`, or `iterations` and `leg_iterations` of the decoder.
        settings: the settings of the run; only the seed, the device and the time limit are used.
    """
    from equifactor.decoding.memory_training import MemoryTraining, train_memories
    from equifactor.decoding.methods import LearnedMemoryDecoding
    from equifactor.learning.training.training_settings import TrainingSettings

    if kind != "learned-memory":
        raise OptionError(
            f"{kind} cannot be trained to decode; only learned-memory can. "
            "Write `equifactor train learned-memory --task DECODE ..`."
        )
    if not out.endswith(MODEL_SUFFIX):
        raise OptionError(f"{out}: the name of a file of weights ends in {MODEL_SUFFIX}.")
    if not Path(out).resolve().parent.is_dir() or Path(out).is_dir():  # Checked before the training, not after it.
        raise OptionError(f"{out}: weights cannot be written there. Name a file in a folder that exists.")
    usual = {f.name: f.default for f in dataclasses.fields(TrainingSettings)}
    for name, value in settings.items():
        if name not in _USED and value != usual[name]:
            raise OptionError(
                f"--{name.replace('_', '-')} {format_value(value)} has no meaning for --task DECODE. "
                "Pass its settings with --set, such as --set steps=100."
            )
    of_method = {name: own.pop(name) for name in ("iterations", "leg_iterations") if name in own}
    known = [f.name for f in dataclasses.fields(MemoryTraining) if f.name != "seed"]
    check_names("decoding", own, [*known, "iterations", "leg_iterations"])
    network = train_memories(
        [code_of(text) for text in data], LearnedMemoryDecoding(**of_method),
        MemoryTraining(seed=settings["seed"], **own),
        device=settings["device"], time_limit=settings["time_limit"], progress=True,
    )  # fmt: skip
    network.card["codes"] = [Path(text).name for text in data]
    network.save(out)
    first, best = network.card["validation"][0][1], min(cost for _, cost in network.card["validation"])
    print(
        f"{out}: validation cost {first:.4g} untrained, {best:.4g} now; "
        f"use it by --method learned-memory(weights={out})"
    )


def code_of(text: str) -> ErrorModel:
    """Read the code that a text names: a file or `bb72`, with the prior of its errors or the basis of its circuit."""
    from equifactor.decoding.code_files import read_code

    name, colon, more = text.rpartition(":")
    if colon and more in ("X", "Z"):
        return read_code(name, basis=more)
    try:
        return read_code(name, prior=float(more)) if colon else read_code(text)
    except ValueError:
        return read_code(text)
