"""Potts factors in searches by single changes: the words are the labels of both variables."""

from __future__ import annotations

from equifactor.factors.move_rows import labelled_moves as potts_moves

__all__ = ["potts_moves"]
