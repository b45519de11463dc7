"""Sources that `Decoder` takes in place of a check matrix: models, files, names of codes and objects of Stim."""

from __future__ import annotations

import dataclasses
import os
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, OptionError
from equifactor.base.files import label, split_name
from equifactor.decoding.code_files import is_text, read_code
from equifactor.decoding.error_model import ErrorModel
from equifactor.decoding.given_arrays import read_array

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_SOME_PRIOR = 0.25  # A placeholder that is replaced by the probabilities that the user gave for each error.


def is_source(checks: Any) -> bool:
    """Return whether `checks` is a model, a path, the text of a model or an object of Stim, and not a matrix."""
    is_stim = type(checks).__module__.partition(".")[0] == "stim"
    return is_stim or isinstance(checks, (ErrorModel, str, os.PathLike))


def read_source(source: Any, priors: ArrayLike | None = None, *, basis: str | None = None) -> ErrorModel:
    """Read the model of a source; raise `OptionError` if priors are given and the source has its own.

    Args:
        source: as for `read_code`.
        priors: one probability for all errors, or one for each error, if the source does not state any.
        basis: `X` or `Z` keeps only the detectors of a circuit that errors of the other kind flip.
    """
    if priors is None:
        return read_code(source, basis=basis)
    if has_priors(source):
        name = label(source) if isinstance(source, (str, os.PathLike)) and not is_text(source) else "<code>"
        raise OptionError(f"{name}: the code states the probabilities of its errors. Leave out the prior.")
    given = read_array("priors", priors).astype(float)
    if given.ndim == 0:
        return read_code(source, basis=basis, prior=float(given))
    model = read_code(source, basis=basis, prior=_SOME_PRIOR)
    if given.shape != model.priors.shape:
        raise ModelError(
            f"priors must be one probability or one for each of {model.num_errors} errors, found an array of shape "
            f"{given.shape}."
        )
    wrong = ~((given >= 0.0) & (given <= 1.0))
    if wrong.any():
        n = int(np.argmax(wrong))
        raise ModelError(f"The prior of error {n} is {given[n]}. A probability must be from 0 to 1.")
    return dataclasses.replace(model, priors=given)


def has_priors(source: Any) -> bool:
    """Return whether a source states the probabilities of its errors."""
    if not isinstance(source, (str, os.PathLike)) or is_text(source):
        return True
    suffix = split_name(source)[1]
    if suffix == ".npz":
        try:
            with zipfile.ZipFile(source) as archive:
                return "priors.npy" in archive.namelist()
        except (OSError, zipfile.BadZipFile):
            return False  # `read_code` raises the error.
    return suffix in (".dem", ".stim")
