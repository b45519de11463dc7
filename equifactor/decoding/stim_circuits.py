"""Circuits of Stim: their detector error models, and the detectors that errors of one basis flip."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from equifactor.base.errors import FormatError, OptionError
from equifactor.base.number_text import count_text
from equifactor.base.read_limits import limit_text, most_numbers
from equifactor.decoding.dem_text import MAX_DEPTH, parse_dem

if TYPE_CHECKING:
    from equifactor.decoding.error_model import ErrorModel

_NUMBERS_PER_QUBIT = 8  # The memory that Stim needs for a qubit, 64 bytes, in numbers of 8 bytes.
_MAX_REASON = 300  # The largest number of characters of an error of Stim that are shown. Chosen by hand.
_ANNOTATIONS = ("DETECTOR", "OBSERVABLE_INCLUDE", "SHIFT_COORDS", "QUBIT_COORDS", "TICK", "MPAD")
_SEEN_BY = {"X": "Z_ERROR", "Z": "X_ERROR"}  # The errors that flip detectors of a basis.


def stim_module() -> Any:
    """Return the package Stim; raise `OptionError` if it is not installed."""
    try:
        import stim
    except ImportError:
        raise OptionError('Circuits need Stim: pip install "equifactor[decoding]". Files in .dem do not.') from None
    return stim


def model_of_circuit(text: str, where: str = "<circuit>", basis: str | None = None) -> ErrorModel:
    """Return the error model of the text of a circuit. With a basis, the model has only the detectors of that basis."""
    stim = stim_module()
    _check_depth(text, where)
    try:
        circuit = stim.Circuit(f"{text}\n")  # Stim 1.16 never returns from a tag that the end of the text cuts off.
        _check_size(circuit, len(text), where)
        model = parse_dem(str(circuit.detector_error_model()), where)
    except (ValueError, MemoryError) as error:
        why = " ".join(str(error).split())[:_MAX_REASON]
        raise FormatError(f"{where}: Stim cannot read the circuit: {why}") from None
    if basis is None:
        return model
    kept = detectors_of_basis(circuit, basis)
    if not kept:
        raise OptionError(f"{where}: the circuit has no detectors of basis {basis}. Choose the other basis, or none.")
    return model.with_detectors(kept)


def _check_depth(text: str, where: str) -> None:
    """Raise `FormatError` for blocks nested so deeply that Stim, which reads them by recursion, would crash."""
    depth = 0
    for mark in re.finditer(r"[{}]", text):
        depth += 1 if mark[0] == "{" else -1
        if depth > MAX_DEPTH:
            line = text.count("\n", 0, mark.start()) + 1
            raise FormatError(f"{where}:{line}: blocks are nested more than {MAX_DEPTH} deep, which is not supported.")


def _check_size(circuit: Any, num_bytes: int, where: str) -> None:
    """Raise `FormatError` if the repeated blocks or the qubits of a circuit would take too much time or memory."""
    most = most_numbers(num_bytes)
    size, qubits = _expanded_size(circuit), circuit.num_qubits
    if size > most or qubits * _NUMBERS_PER_QUBIT > most:
        raise FormatError(
            f"{where}: the circuit has {qubits} qubits, and its repeated blocks expand to {count_text(size)} "
            f"targets. {limit_text()}"
        )


def _expanded_size(circuit: Any) -> int:
    """Return the number of instructions and targets after all repetitions."""
    size = 0
    for part in circuit:
        if part.name == "REPEAT":
            size += part.repeat_count * _expanded_size(part.body_copy())
        else:
            size += 1 + len(part.targets_copy())
    return size


def detectors_of_basis(circuit: Any, basis: str) -> list[int]:
    """Return the detectors of a CSS circuit that errors of the other basis on its data qubits can flip, ascending.

    If every check is either X or Z throughout, the code can be decoded one kind at a time: Z errors flip X checks. This
    function removes the noise of the circuit and adds an error of the other basis after every operation on a data
    qubit. Data qubits are the qubits that are measured at the end and less often than the others.
    """
    if basis not in _SEEN_BY:
        raise OptionError(f"The basis must be X or Z, found {basis!r}.")
    instructions = list(circuit.flattened().without_noise())
    data = _data_qubits(instructions)
    probe = stim_module().Circuit()
    for instruction in instructions:
        probe.append(instruction)
        if instruction.name not in _ANNOTATIONS and (touched := data & _qubits(instruction)):
            probe.append(_SEEN_BY[basis], sorted(touched), 0.001)
    model = parse_dem(str(probe.detector_error_model()))
    return sorted(set(model.detectors.tolist()))


def _data_qubits(instructions: list[Any]) -> set[int]:
    """Return the qubits measured after the last gate that are measured least often."""
    count: Counter[int] = Counter()
    last: set[int] = set()
    for instruction in instructions:
        if instruction.name in _ANNOTATIONS:
            continue
        if not instruction.name.startswith("M"):
            last = set()
            continue
        last |= _qubits(instruction)
        count.update(_qubits(instruction))
    least = min((count[q] for q in last), default=0)
    return {q for q in last if count[q] == least}


def _qubits(instruction: Any) -> set[int]:
    return {target.value for target in instruction.targets_copy() if target.qubit_value is not None}
