"""Circuits of Stim: their detector error models, and the detectors that errors of one basis flip."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from equifactor.base.errors import FormatError, OptionError
from equifactor.decoding.dem_text import parse_dem

if TYPE_CHECKING:
    from equifactor.decoding.error_model import ErrorModel

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
    """Return the error model of a circuit, given as text; with a basis, only with the detectors of that basis."""
    stim = stim_module()
    try:
        circuit = stim.Circuit(text)
        model = parse_dem(str(circuit.detector_error_model()), where)
    except ValueError as error:
        raise FormatError(f"{where}: Stim cannot read the circuit: {' '.join(str(error).split())}") from None
    return model if basis is None else model.with_detectors(detectors_of_basis(circuit, basis))


def detectors_of_basis(circuit: Any, basis: str) -> list[int]:
    """Return the detectors of a CSS circuit that errors of the other basis on its data qubits can flip, ascending.

    If every check is X or Z throughout, the code can be decoded one kind at a time: Z errors flip X checks. The circuit
    is run without its noise, with such an error on a data qubit after every operation on it. Data qubits are those that
    are measured at the end and less often than the others.
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
