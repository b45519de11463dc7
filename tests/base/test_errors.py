"""The texts of errors."""

import pickle

import pytest

from equifactor.base.errors import EquifactorError, FormatError, ModelError


@pytest.mark.parametrize("kind", [EquifactorError, FormatError, ModelError])
def test_a_long_text_keeps_its_beginning_and_its_end(kind: type[EquifactorError]) -> None:
    text = str(kind(f"model.bif:3: the name {'x' * 10**6} is wrong. Rename it."))
    assert len(text) < 2000
    assert text.startswith("model.bif:3: the name xxx")
    assert text.endswith("xxx is wrong. Rename it.")


def test_errors_can_be_sent_to_other_processes() -> None:
    error = pickle.loads(pickle.dumps(ModelError("factor 3 is wrong", factor=3)))
    assert (str(error), error.factor) == ("factor 3 is wrong", 3)
