"""The solvers, one folder per family; the table in `equifactor.solving.registry` names them all."""

from equifactor.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
