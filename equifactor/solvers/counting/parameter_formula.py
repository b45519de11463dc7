"""Factor graphs as weighted formulas in which every positive table entry has a weight of its own.

The variable `t` of an entry is true exactly where the entry applies, and its log weight is the log entry. So the
share of `t` in the sum is the derivative of ln Z by the log entry, whatever the entries are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.solvers.counting.formula import FormulaBuilder, WeightedFormula

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.graph.factor_graph import FactorGraph

_MOST_ENTRIES = 1_000_000  # Entries of all tables: about 10 s of work. Chosen by hand.


def parameter_formula(graph: FactorGraph) -> WeightedFormula:
    """Return a formula whose literals stand for the states [X] and then for the entries [T] of a graph of tables.

    Entries that are zero have the literal of the first state; their place is known from the graph.

    Raises:
        ModelError: if a factor is structured, or the tables have millions of entries.
    """
    s = graph.structure
    if s.kinds is not None:
        raise ModelError("parameters=True is for dense tables. Write structured factors as tables first.")
    if s.num_entries > _MOST_ENTRIES:
        raise ModelError(f"The tables have {s.num_entries:,} entries; parameters=True takes {_MOST_ENTRIES:,}.")
    builder = FormulaBuilder(s.card, s.num_vars)
    builder.add_states()
    literal = [0] * s.num_entries
    log_phi = graph.log_phi.tolist()
    for a in range(s.num_factors):
        scope, first = s.scope(a).tolist(), int(s.table_ptr[a])
        states = [builder.literal[builder.state_ptr[i] : builder.state_ptr[i + 1]].tolist() for i in scope]
        for k, place in enumerate(np.ndindex(*s.shape(a))):
            own = [states[j][x] for j, x in enumerate(place)]
            if log_phi[first + k] == -np.inf:
                builder.clauses.add(frozenset(x ^ 1 for x in own))
            elif len(own) == 1:
                literal[first + k] = own[0]
            else:
                t = literal[first + k] = builder.variable(-1.0)
                builder.clauses.add(frozenset((*(x ^ 1 for x in own), t)))
                builder.clauses.update(frozenset((t ^ 1, x)) for x in own)
    for i, state in graph.evidence.items():
        builder.clauses.add(frozenset((int(builder.literal[s.state_ptr[i] + state]),)))
    formula = builder.finish()
    literals: IntArray = np.append(formula.state_literal, np.array(literal, np.int64))
    return WeightedFormula(
        formula.num_vars, formula.clauses, np.zeros(2 * formula.num_vars), 0.0, literals, formula.is_value
    )
