"""Kinds of factors beyond tables: each file is one kind, with its meaning, its messages and its lowering to tables."""

from equifactor.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
