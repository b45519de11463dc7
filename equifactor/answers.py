"""The types of what functions return, for type hints; `Result` is in `equifactor` itself."""

from equifactor.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
