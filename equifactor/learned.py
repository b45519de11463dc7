"""Networks that infer: their files, their settings, and what it takes to write and to run one."""

from equifactor.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
