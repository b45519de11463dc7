"""The public names of `equifactor.factors`."""

from equifactor.graph.structured_factor import StructuredFactor as StructuredFactor
