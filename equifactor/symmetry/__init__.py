"""The symmetries of a factor graph: relabel, compare, hash and audit.

relabelling.py          `Relabelling`, one element of the symmetry group
relabelled_graph.py     `relabel`, and the new places of table entries and messages
compared_factors.py     factors in a form that depends on their values only
parity_systems.py       parities, and their properties that no relabelling of states can change
binary_elimination.py   linear algebra over the numbers 0 and 1
comparable_graph.py     graphs as tables that are isomorphic exactly when the graphs are isomorphic
colour_refinement.py    colours of nodes that no relabelling can change
coloured_graph.py       a canonical order of the nodes that share a colour
canonical_forms.py      `canonical_form` and `graph_hash`
isomorphisms.py         `isomorphism`
isomorphism_classes.py  classes of isomorphic graphs
comparable_answers.py   answers of solvers and functions that can be relabelled and compared
auditing.py             `equivariance_error` and `audit`

Symbols: V variables, X states of all variables, F factors, E (factor, position) pairs, T table entries, k arity.
"""

from equifactor.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
