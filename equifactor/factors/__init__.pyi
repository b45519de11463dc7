"""The public names of `equifactor.factors`: what it takes to write a kind of factor."""

from equifactor.graph.factor_rows import FactorRows as FactorRows
from equifactor.graph.kinds import register_kind as register_kind
from equifactor.graph.structured_factor import StructuredFactor as StructuredFactor
