"""Seeded generators of factor graphs, one or many at a time.

`count=None` gives one graph and `count=N` a list of N graphs. Graph i of a list does not depend on N.

grids.py, pairwise.py              pairwise fields on grids and on other graphs
random_trees.py, random_graphs.py  random graphs, with tables from random_tables.py
ldpc.py                            decoding of parity-check codes; codes from parity_checks.py, noise from channel.py
random_formulas.py                 random satisfiability
strips.py, planar_ising.py, glued_cliques.py
                                   models too large for exact inference, with known answers; see solved.py
diagnosis.py                       causes and effects, joined by noisy-or factors
random_networks.py, pedigrees.py   Bayesian networks with evidence; alleles of related people
argument_checks.py                 checks of the arguments of all generators
building_blocks.py                 parts that several generators share
"""

from collections.abc import Callable
from typing import Any

from equifactor.generators.channel import BurstyChannel
from equifactor.generators.diagnosis import noisy_or_network
from equifactor.generators.glued_cliques import glued_cliques
from equifactor.generators.grids import asymmetric_grid, ising_grid, potts_grid
from equifactor.generators.ldpc import LdpcCode, Transmissions, ldpc, ldpc_transmissions
from equifactor.generators.pairwise import pairwise_field
from equifactor.generators.pedigrees import pedigree
from equifactor.generators.planar_ising import planar_ising
from equifactor.generators.random_formulas import random_ksat
from equifactor.generators.random_graphs import random_graph
from equifactor.generators.random_networks import random_network
from equifactor.generators.random_trees import random_tree
from equifactor.generators.solved import SolvedModel
from equifactor.generators.strips import ising_strip

# The generators by the names that the command line uses: `equifactor generate ising ...`.
GENERATORS: dict[str, Callable[..., Any]] = {
    "ising": ising_grid,
    "asymmetric": asymmetric_grid,
    "potts": potts_grid,
    "pairwise": pairwise_field,
    "tree": random_tree,
    "random": random_graph,
    "ldpc": ldpc,
    "ksat": random_ksat,
    "noisy-or": noisy_or_network,
    "network": random_network,
    "pedigree": pedigree,
}

__all__ = [
    "GENERATORS",
    "BurstyChannel",
    "LdpcCode",
    "SolvedModel",
    "Transmissions",
    "asymmetric_grid",
    "glued_cliques",
    "ising_grid",
    "ising_strip",
    "ldpc",
    "ldpc_transmissions",
    "noisy_or_network",
    "pairwise_field",
    "pedigree",
    "planar_ising",
    "potts_grid",
    "random_graph",
    "random_ksat",
    "random_network",
    "random_tree",
]
