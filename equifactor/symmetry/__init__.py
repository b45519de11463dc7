"""The symmetries of a factor graph as a tool: relabel, compare, hash, audit.

Symbols: V variables, X states of all variables, F factors, E (factor, position) pairs, T table entries, k arity.
"""

from equifactor.symmetry.auditing import audit, equivariance_error
from equifactor.symmetry.canonical_forms import canonical_form, canonical_relabelling, graph_hash
from equifactor.symmetry.isomorphisms import isomorphism
from equifactor.symmetry.relabelled_graph import relabel
from equifactor.symmetry.relabelling import KINDS, Relabelling

__all__ = [
    "KINDS",
    "Relabelling",
    "audit",
    "canonical_form",
    "canonical_relabelling",
    "equivariance_error",
    "graph_hash",
    "isomorphism",
    "relabel",
]
