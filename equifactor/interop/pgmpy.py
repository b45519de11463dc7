"""Conversion from and to pgmpy: Bayesian networks, Markov networks and factor graphs.

A `TabularCPD` has its child on the first axis, while a conditional distribution in this package has the child last, as
in files. Both use C order, with the last variable fastest.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.optional_packages import needed
from equifactor.base.options import choices
from equifactor.formats.conditionals import conditionals_of
from equifactor.graph.factor_graph import FactorGraph
from equifactor.interop.distributions import check_distribution
from equifactor.interop.labels import are_numbers, names_elsewhere, state_names, variable_names
from equifactor.interop.plain_factors import PlainFactor, linear, plain_factors

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

KINDS_OF_PGMPY = ("bayesian", "markov", "factor-graph")
# The classes of pgmpy by name, so that pgmpy is not imported: anyone who has a model has imported it.
_BAYESIAN = {"DiscreteBayesianNetwork", "BayesianNetwork", "BayesianModel"}
_MARKOV = {"DiscreteMarkovNetwork", "MarkovNetwork", "MarkovModel", "ClusterGraph"}
_NOT_TABLES = {"FunctionalBayesianNetwork", "LinearGaussianBayesianNetwork"}


# ---- from pgmpy -------------------------------------------------------------------------------------------


def from_pgmpy(model: Any) -> FactorGraph:
    """Return the factor graph of a pgmpy model, with one factor per distribution or factor of the model, in its order.

    Args:
        model: a `DiscreteBayesianNetwork`, `DiscreteMarkovNetwork`, `FactorGraph`, `JunctionTree` or `ClusterGraph`
            of pgmpy. Variables are in the order of its nodes, or of its factors for the last two classes.

    Names that are not text are converted to text; states 0, 1, .. have no names. If factors list the states of a
    variable in different orders, their tables are reordered.

    Raises:
        ModelError: for a model of another class, a variable without states, or tables that do not fit together.
    """
    classes = {c.__name__ for c in type(model).__mro__ if c.__module__.startswith("pgmpy.")}
    if not classes:
        raise ModelError(f"Expected a model of pgmpy, found {brief(model)}.")
    if classes & _BAYESIAN and not classes & _NOT_TABLES:
        nodes, factors = list(model.nodes()), _distributions(model)
    elif "ClusterGraph" in classes:  # its nodes are sets of variables
        factors = list(model.get_factors())
        nodes = list(dict.fromkeys(v for f in factors for v in f.variables))
    elif classes & _MARKOV:
        nodes, factors = list(model.nodes()), list(model.get_factors())
    elif "FactorGraph" in classes:
        factors = list(model.get_factors())
        nodes = _variable_nodes(model, factors)
    else:
        raise ModelError(
            f"A {type(model).__name__} of pgmpy is not a product of tables. Pass a DiscreteBayesianNetwork, "
            "DiscreteMarkovNetwork, FactorGraph or JunctionTree."
        )
    first = 1 if classes & _BAYESIAN else 0  # the number of axes to move to the end: the child of a distribution
    return _graph(nodes, factors, first, getattr(model, "name", None))


def _distributions(model: Any) -> list[Any]:
    """Return the distribution of every node, in order; raise if its parents are not those of the network."""
    found = []
    for node in model.nodes():
        cpd = model.get_cpds(node)
        if cpd is None or isinstance(cpd, list):
            raise ModelError(f"Variable {brief(node)} has no distribution. Add a TabularCPD for it.")
        if cpd.variables[0] != node or set(cpd.variables[1:]) != set(model.predecessors(node)):
            raise ModelError(
                f"The distribution of variable {brief(node)} has the parents {brief(list(cpd.variables[1:]))}, but its "
                f"parents in the network are {brief(list(model.predecessors(node)))}."
            )
        check_distribution(f"variable {brief(node)}", cpd.variables[1:], np.asarray(cpd.values))
        found.append(cpd)
    return found


def _variable_nodes(model: Any, factors: Sequence[Any]) -> list[Hashable]:
    """Return the nodes of a factor graph that are variables; the others are factors or labels of factors."""
    variables = {v for f in factors for v in f.variables}
    known = set(factors)
    for node in model.nodes():
        if node in variables or node in known:
            continue
        if hasattr(node, "variables") or not set(model.neighbors(node)) <= variables or not model.degree(node):
            raise ModelError(f"Node {brief(node)} is not in any factor of the graph. Add one with add_factors(..).")
    return [node for node in model.nodes() if node in variables]


def _graph(nodes: list[Hashable], factors: Sequence[Any], first: int, name: object) -> FactorGraph:
    names = variable_names(nodes)
    states: dict[Hashable, list[Any]] = {}
    pairs: list[tuple[list[str], FloatArray]] = []
    for a, factor in enumerate(factors):
        table = np.asarray(factor.values)
        for axis, variable in enumerate(factor.variables):
            if variable not in names:
                raise ModelError(f"Factor {a} names variable {brief(variable)}, which is not a node of the model.")
            own = list(factor.state_names.get(variable, range(table.shape[axis])))
            table = _in_order(table, axis, own, states, variable)
        scope = [names[v] for v in factor.variables]
        table = np.moveaxis(table, range(first), range(-first, 0))
        pairs.append((scope[first:] + scope[:first], table))
    for node in nodes:
        if node not in states:
            raise ModelError(
                f"Variable {brief(node)} is in no factor, so its number of states is unknown. Add a factor of ones."
            )
    variables = {names[node]: state_names(names[node], states[node]) for node in nodes}
    return FactorGraph(variables, pairs, name=name if isinstance(name, str) and name else None)


def _in_order(
    table: FloatArray, axis: int, own: list[Any], states: dict[Hashable, list[Any]], variable: Hashable
) -> FloatArray:
    """Return a table with the states of one axis in the order of the first factor of this variable."""
    if len(own) != table.shape[axis]:
        raise ModelError(
            f"Variable {brief(variable)} has {table.shape[axis]} states in a table, but the names {brief(own)}."
        )
    known = states.setdefault(variable, own)
    if own == known:
        return table
    if len(own) == len(known):
        if set(own) == set(known):
            return np.take(table, [own.index(s) for s in known], axis=axis)
        if are_numbers(own):  # the states have no names and are identified by their order
            return table
        if are_numbers(known):
            states[variable] = own
            return table
    raise ModelError(
        f"Variable {brief(variable)} has the states {brief(known)} in one factor and {brief(own)} in another."
    )


# ---- to pgmpy ---------------------------------------------------------------------------------------------


@checks_types("graph", "kind")
def to_pgmpy(graph: FactorGraph, kind: str) -> Any:
    """Return a pgmpy model with the same distribution.

    Args:
        graph: any graph; it may have evidence unless `kind` is "bayesian".
        kind: "bayesian" for a `DiscreteBayesianNetwork`, which needs one conditional distribution per variable;
            "markov" for a `DiscreteMarkovNetwork`; "factor-graph" for a `FactorGraph`, in which equal factors are
            multiplied, since pgmpy treats them as one.

    Variables without names are called x0, x1, .., and states without names are 0, 1, .. An observation becomes a factor
    that is 0 in all other states, structured factors become dense tables, and a variable without factors gets a factor
    of ones.

    Raises `ModelError` if a structured factor needs more than 2^20 entries, or a float cannot hold an entry.
    """
    if kind == "bayesian":
        return _bayesian(graph)
    if kind == "markov":
        return _markov(graph)
    if kind == "factor-graph":
        return _factor_graph(graph)
    raise OptionError(f"There is no kind {kind!r} of pgmpy models; {choices(str(kind), KINDS_OF_PGMPY)}")


def _bayesian(graph: FactorGraph) -> Any:
    what = "a DiscreteBayesianNetwork of pgmpy"
    conditionals = conditionals_of(graph, what)
    models, discrete = needed("pgmpy.models", "to_pgmpy"), needed("pgmpy.factors.discrete", "to_pgmpy")
    names, states = names_elsewhere(graph)
    model = _named(models.DiscreteBayesianNetwork(), graph)
    model.add_nodes_from(names)
    for c in conditionals:
        model.add_edges_from([(names[p], names[c.child]) for p in c.parents])
        card = int(graph.card[c.child])
        table = np.moveaxis(linear(c.log_table, what), -1, 0).reshape(card, -1)
        given = {"evidence": [names[p] for p in c.parents], "evidence_card": [int(graph.card[p]) for p in c.parents]}
        own = {names[i]: list(states[i]) for i in (c.child, *c.parents)}
        model.add_cpds(discrete.TabularCPD(names[c.child], card, table, **given, state_names=own))
    return model


def _markov(graph: FactorGraph) -> Any:
    what = "a DiscreteMarkovNetwork of pgmpy"
    plain = plain_factors(graph, what)
    model = _named(needed("pgmpy.models", "to_pgmpy").DiscreteMarkovNetwork(), graph)
    model.add_nodes_from(names_elsewhere(graph)[0])
    for factor in _discrete_factors(graph, plain, what):
        model.add_edges_from(combinations(factor.variables, 2))
        model.add_factors(factor)
    return model


def _factor_graph(graph: FactorGraph) -> Any:
    what = "a FactorGraph of pgmpy"
    plain = _without_equals(plain_factors(graph, what))
    model = _named(needed("pgmpy.models", "to_pgmpy").FactorGraph(), graph)
    model.add_nodes_from(names_elsewhere(graph)[0])
    for factor in _discrete_factors(graph, plain, what):
        model.add_node(factor)
        model.add_edges_from([(variable, factor) for variable in factor.variables])
        model.add_factors(factor)
    return model


def _named(model: Any, graph: FactorGraph) -> Any:
    if graph.name is not None:
        model.name = graph.name
    return model


def _discrete_factors(graph: FactorGraph, plain: Iterable[PlainFactor], what: str) -> Iterable[Any]:
    discrete = needed("pgmpy.factors.discrete", "to_pgmpy")
    names, states = names_elsewhere(graph)
    for scope, log_table in plain:
        own = {names[i]: list(states[i]) for i in scope}
        yield discrete.DiscreteFactor([names[i] for i in scope], log_table.shape, linear(log_table, what), own)


def _without_equals(plain: list[PlainFactor]) -> list[PlainFactor]:
    """Return the factors with equal tables over the same variables multiplied into one.

    The nodes of a factor graph of pgmpy are factors, and factors of equal content are one node.
    """
    count: dict[tuple[tuple[int, ...], bytes], int] = {}
    first: list[tuple[PlainFactor, tuple[tuple[int, ...], bytes]]] = []
    for factor in plain:
        order = np.argsort(factor.scope)
        key = tuple(sorted(factor.scope)), np.transpose(factor.log_table, order).tobytes()
        if key not in count:
            first.append((factor, key))
        count[key] = count.get(key, 0) + 1
    return [PlainFactor(factor.scope, factor.log_table * count[key]) for factor, key in first]
