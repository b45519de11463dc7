"""What the page shows of a model: variables, factors, their tables, and where they are drawn."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import OptionError, brief
from equifactor.graph.kinds import kind_name
from equifactor.graph.parents import children_of
from equifactor.graph.structure import numbered

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.show.graph_layout import Places

Answer = dict[str, Any]

_LARGEST_SHOWN = 4096  # entries of a table that the page shows. Chosen by hand.
_SHAPE, _MOST_STRETCH = 1.3, 1.8  # wanted ratio of width to height of layers; largest factor of stretching. By hand.
_MOST_AS_NETWORK = 5000  # variables of a model that is checked for being a Bayesian network. Chosen by hand.


class ModelPicture:
    """One graph as the page draws it."""

    def __init__(self, graph: FactorGraph, seed: int = 0) -> None:
        self.graph, self.seed = graph, seed

    @cached_property
    def children(self) -> list[int] | None:
        """The variable [F] whose conditional distribution each factor is; None if this is not a Bayesian network."""
        return children_of(self.graph) if 0 < self.graph.num_vars <= _MOST_AS_NETWORK else None

    @cached_property
    def places(self) -> Places:
        """Where variables and factors are drawn."""
        from equifactor.show.graph_layout import places_of

        return places_of(self.graph, self.children, self.seed)

    @property
    def _stretch(self) -> float:
        """The factor by which layers are wider on the page, so that tall networks use the width of a window."""
        if self.places.routes is None:
            return 1.0
        width, height = np.ptp(self.places.variables, axis=0) + 1.0
        return round(float(np.clip(_SHAPE * height / width, 1.0, _MOST_STRETCH)), 3)

    def graph_columns(self) -> Answer:
        """Return the graph in columns: names, states and places; factors with kinds and scopes."""
        s, at, wider = self.graph.structure, self.places, self._stretch
        own = [[str(x) for x in s.states_of(i)] for i in range(s.num_vars)]
        common = bool(own) and all(names == own[0] for names in own)
        kinds = np.zeros(s.num_factors, np.int64) if s.kinds is None else s.kinds.kind
        names = [kind_name(n) for n in range(int(kinds.max(initial=0)) + 1)]
        return {
            "columnar": True, "layout": at.kind, "grid": at.grid, "directed": self.children is not None,
            "stretch": wider,
            "variables": {
                "names": [s.variable_name(i) for i in range(s.num_vars)],
                "states": {"common": own[0]} if common else own,
                "x": (wider * at.variables[:, 0]).round(3), "y": at.variables[:, 1].round(3),
            },
            "factors": {
                "names": [self._factor_name(a) for a in range(s.num_factors)], "kinds": [names[k] for k in kinds],
                "ptr": s.scope_ptr, "scope": s.scope_vars, "x": (wider * at.factors[:, 0]).round(3),
                "y": at.factors[:, 1].round(3), "entries": np.diff(s.table_ptr), "children": self.children,
                "routes": at.routes and [(route * (wider, 1.0)).ravel().round(3) for route in at.routes],
            },
        }  # fmt: skip

    def factor(self, index: Any) -> Answer:
        """Return one factor, and its table as natural logarithms in C order if it has at most 4096 entries."""
        s = self.graph.structure
        try:
            a = int(index)
        except (TypeError, ValueError):
            a = -1
        if not 0 <= a < s.num_factors:
            raise OptionError(f"The model has no factor {brief(index)}. It has {numbered(s.num_factors, 'factor')}.")
        kind = kind_name(0 if s.kinds is None else int(s.kinds.kind[a]))
        shape = s.shape(a)
        size = float(np.prod(np.array(shape, float)))
        values = self.graph.log_table(a).ravel() if size <= _LARGEST_SHOWN else None
        return {
            "name": self._factor_name(a), "kind": kind, "scope": s.scope(a), "shape": shape, "values": values,
            "text": self._sentence(a, kind, size, values),
        }  # fmt: skip

    def _sentence(self, a: int, kind: str, size: float, values: np.ndarray | None) -> str:
        arity = int(self.graph.structure.arity[a])
        over = f"over {arity:,} variable{'s' * (arity != 1)}"
        if kind != "table":
            return f"{brief(self.graph.factor(a))} {over}."
        zeros = 0 if values is None else int(np.isneginf(values).sum())
        child = None if self.children is None else self.graph.structure.variable_name(self.children[a])
        what = (
            "A table" if child is None else f"The distribution of {child}" + (" given its parents" if arity > 1 else "")
        )
        return f"{what} {over}, {size:,.0f} entries{f', {zeros:,} of them zero' if zeros else ''}."

    def _factor_name(self, a: int) -> str:
        if self.children is None:
            return f"factor {a}"
        s = self.graph.structure
        parents = [s.variable_name(i) for i in s.scope(a).tolist() if i != self.children[a]]
        return f"P({s.variable_name(self.children[a])}{' | ' if parents else ''}{', '.join(parents)})"
