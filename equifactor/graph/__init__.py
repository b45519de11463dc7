"""Factor graphs: what the user states (`FactorGraph`) and its compiled form (`FlatGraph`).

Symbols: V variables, F factors, E edges, X variable states, S edge states, T table entries.
"""

from equifactor.graph.compiler import compile
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.flat_graph import FlatGraph
from equifactor.graph.structure import Structure

__all__ = ["FactorGraph", "FlatGraph", "Structure", "compile"]
