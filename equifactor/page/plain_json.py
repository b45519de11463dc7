"""Answers as JSON that every browser reads: no NaN, and infinite numbers as text."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np


def as_json(value: Any) -> str:
    """Return an answer as JSON in ASCII, because names may be invalid Unicode. -inf becomes "-inf", NaN null."""
    return json.dumps(_plain(value), allow_nan=False, separators=(",", ":"))


def number(value: float | None) -> float | str | None:
    """Return one number: itself if finite, "inf" or "-inf", or None for NaN and None."""
    if value is None or math.isnan(value):
        return None
    return float(value) if math.isfinite(value) else str(float(value))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        finite = value.dtype.kind != "f" or np.isfinite(value).all()
        return value.tolist() if finite else _plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value
