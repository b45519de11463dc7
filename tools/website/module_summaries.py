"""An extension by which the reference shows only the first paragraph of a module docstring.

The rest of the docstring is for readers of the source.
"""

from __future__ import annotations

from typing import Any

from griffe import Extension, Module


class ModuleSummaries(Extension):
    """An extension of griffe that cuts the docstrings of modules after the first paragraph."""

    def on_module(self, *, mod: Module, **kwargs: Any) -> None:
        """Keep the first paragraph of the docstring."""
        if mod.docstring is not None:
            mod.docstring.value = mod.docstring.value.strip().partition("\n\n")[0]
