"""Kinds of factors: one folder per kind with its meaning, kernels, moves and tensors, and what all kinds share."""

from equifactor.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
