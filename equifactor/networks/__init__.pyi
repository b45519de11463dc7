"""The public names of `equifactor.networks`."""

from equifactor.networks.causal_effect import CausalEffect as CausalEffect
from equifactor.networks.conditional_table import ConditionalTable as ConditionalTable
from equifactor.networks.divergence import Divergence as Divergence
from equifactor.networks.divergence import divergence as divergence
from equifactor.networks.separation import Separation as Separation
