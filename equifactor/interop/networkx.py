"""Conversion from and to networkx: bipartite graphs of variables and factors, graphs with tables on nodes and edges.

The attributes of nodes and edges, in both directions:

states     of a variable: the number of its states, or the list of their names
table      of a factor, node or edge: its table, one axis per variable; or `log_table`, natural logarithms
factor     of a factor, instead of a table: `Parity()`, `Clause()`, ..
scope      of a factor or edge: its variables in the order of the axes
slot       of an edge between variable and factor: the axis of this variable, counted from 0
observed   of a variable: its observed state
bipartite  of every node of a graph with factors: 0 for a variable, 1 for a factor, as is usual in networkx
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.optional_packages import needed
from equifactor.base.options import choices
from equifactor.graph.factor_graph import FactorGraph, as_graph
from equifactor.graph.reading.inputs import as_list, as_numbers
from equifactor.graph.structured_factor import StructuredFactor
from equifactor.interop.labels import state_names, variable_names
from equifactor.interop.plain_factors import PlainFactor, merged_scopes

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

KINDS_OF_NETWORKX = ("bipartite", "pairwise")
_TABLES = ("table", "log_table", "factor")  # The attributes that define a factor; a factor has one of them.
_SYMMETRIC = ("parity", "potts", "truncated_linear")  # Kinds whose variables may be swapped if they have no labels.

Label = Hashable


# ---- from networkx ----------------------------------------------------------------------------------------


def from_networkx(graph: Any) -> FactorGraph:
    """Return the factor graph of a networkx graph, which has one of two forms.

    **Bipartite.** Every node has the attribute `bipartite`: 0 for variables, which have `states`, and 1 for factors,
    which have `table`, `log_table` or `factor`. `scope` of a factor or `slot` of its edges gives the axes of its table.

    **Pairwise.** Every node is a variable with `states`. It may have a `table` or `log_table`, whose length then
    replaces `states`. Every edge has a table with an axis for each end: in the order of `scope`, or with the tail first
    in a directed graph. Without `scope`, the table of an undirected edge must be symmetric. Each parallel edge is a
    factor.

    Variables are in the order of the nodes. A node that is not text gets its text as name, except that nodes 0, 1, ..
    whose states have no names get no names either. A variable with `observed` becomes evidence.

    Raises `ModelError` for anything that is missing or ambiguous.
    """
    if type(graph).__module__.startswith("pgmpy."):  # its models are networkx graphs without these attributes
        raise ModelError(f"A {type(graph).__name__} is a model of pgmpy. Use equifactor.interop.from_pgmpy to read it.")
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed", "is_multigraph")):
        raise ModelError(f"Expected a networkx graph, found {brief(graph)}.")
    sides = dict(graph.nodes(data="bipartite"))
    bipartite = any(side is not None for side in sides.values())
    if bipartite:
        _check_bipartite(graph, sides)
    nodes = [node for node in graph.nodes() if not sides[node]]
    variables = {node: _states(node, graph.nodes[node], bipartite) for node in nodes}
    factors = _of_bipartite(graph, sides) if bipartite else _of_pairs(graph)
    number = {node: i for i, node in enumerate(nodes)}
    pairs = [([number[v] for v in scope], table) for scope, table in factors]
    result = FactorGraph(_variables(variables), pairs, log=True, name=_name(graph))
    seen = {number[n]: state for n in nodes if (state := graph.nodes[n].get("observed")) is not None}
    return result.condition(_named_evidence(result, seen)) if seen else result


def _name(graph: Any) -> str | None:
    name = graph.graph.get("name")
    return name if isinstance(name, str) and name else None


def _variables(states: Mapping[Label, list[str] | int]) -> Any:
    """Return the variables in the form that `FactorGraph` takes."""
    if list(states) == list(range(len(states))) and all(isinstance(s, int) for s in states.values()):
        return list(states.values())
    names = variable_names(states)
    return {names[node]: own for node, own in states.items()}


def _named_evidence(graph: FactorGraph, seen: Mapping[int, Any]) -> dict[int | str, Any]:
    names = graph.structure.variable_names
    return {i if names is None else names[i]: state for i, state in seen.items()}


def _states(node: Label, attributes: Mapping[str, Any], bipartite: bool) -> list[str] | int:
    given = attributes.get("states")
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        return int(given)
    names = as_list(given)
    if names is not None:
        return state_names(str(node), names)
    own = None if bipartite else attributes.get("table", attributes.get("log_table"))
    if given is None and own is not None:
        return len(_numbers(own, f"Node {brief(node)}").ravel())
    raise ModelError(
        f"Node {brief(node)} needs the attribute `states`: the number of its states or a list of their names. Found "
        f"{brief(given) if given is not None else f'the attributes {sorted(map(str, attributes))}'}."
    )


def _check_bipartite(graph: Any, sides: Mapping[Label, Any]) -> None:
    odd = [node for node, side in sides.items() if side not in (0, 1)]
    if odd:
        raise ModelError(
            f"Node {brief(odd[0])} has bipartite={sides[odd[0]]!r}. In a graph with factors every node needs 0 (a "
            "variable) or 1 (a factor)."
        )
    if graph.is_directed() or graph.is_multigraph():
        raise ModelError(
            f"A bipartite graph of variables and factors must be a networkx.Graph, found a {type(graph).__name__}. "
            "Convert it with networkx.Graph(graph), which drops directions and parallel edges."
        )
    for u, v in graph.edges():
        if sides[u] == sides[v]:
            side = "factors" if sides[u] else "variables"
            raise ModelError(
                f"The edge from {brief(u)} to {brief(v)} joins two {side}. An edge must join a variable and a factor."
            )


def _of_bipartite(graph: Any, sides: Mapping[Label, Any]) -> Iterable[tuple[list[Label], Any]]:
    for node in graph.nodes():
        if sides[node]:
            where, attributes = f"Factor {brief(node)}", graph.nodes[node]
            yield _scope_of_factor(graph, node, where, attributes.get("scope")), _log_table(attributes, where)


def _scope_of_factor(graph: Any, node: Label, where: str, stated: Any) -> list[Label]:
    around = list(graph.neighbors(node))
    slots = [graph.edges[node, v].get("slot") for v in around]
    scope = None if stated is None else as_list(stated)
    if scope is not None and (len(scope) != len(around) or set(scope) != set(around)):
        raise ModelError(f"{where} has the scope {brief(scope)}, but its neighbours are {brief(around)}.")
    if any(slot is not None for slot in slots):
        if not all(isinstance(s, (int, np.integer)) for s in slots) or sorted(slots) != list(range(len(around))):
            raise ModelError(f"{where}: its edges need the slots 0 to {len(around) - 1}, found {brief(slots)}.")
        by_slot = [around[k] for k in np.argsort(slots)]
        if scope not in (None, by_slot):
            raise ModelError(f"{where} has the scope {brief(scope)}, but the slots of its edges give {brief(by_slot)}.")
        return by_slot
    if scope is None and len(around) > 1:
        raise ModelError(
            f"{where} has {len(around)} variables, but nothing tells which axis of its table belongs to which "
            "variable. Give it the attribute `scope`, or its edges the attribute `slot`."
        )
    return around if scope is None else scope


def _of_pairs(graph: Any) -> Iterable[tuple[list[Label], Any]]:
    for node, attributes in graph.nodes(data=True):
        if any(key in attributes for key in _TABLES):
            yield [node], _log_table(attributes, f"Node {brief(node)}")
    for u, v, attributes in graph.edges(data=True):
        where = f"The edge from {brief(u)} to {brief(v)}"
        table = _log_table(attributes, where)
        scope = as_list(attributes.get("scope"))
        if scope is not None and (len(scope) != 2 or set(scope) != {u, v}):
            raise ModelError(f"{where} has the scope {brief(scope)}, which is not its two ends.")
        if scope is None and not graph.is_directed() and not _is_symmetric(table):
            raise ModelError(
                f"{where} has no direction and its table is not symmetric, so nothing tells which axis belongs to "
                f"which end. Give the edge the attribute scope=({u!r}, {v!r}) or ({v!r}, {u!r})."
            )
        yield scope or [u, v], table


def _is_symmetric(table: FloatArray | StructuredFactor) -> bool:
    """Return whether the two variables of a factor may be swapped."""
    if isinstance(table, StructuredFactor):
        return table.kind in _SYMMETRIC and getattr(table, "labels", None) is None
    return table.ndim == 2 and table.shape[0] == table.shape[1] and np.array_equal(table, table.T)


def _log_table(attributes: Mapping[str, Any], where: str) -> FloatArray | StructuredFactor:
    given = [key for key in _TABLES if key in attributes]
    if len(given) != 1:
        found = " and ".join(given) if given else f"the attributes {sorted(map(str, attributes))}"
        raise ModelError(f"{where} needs exactly one of the attributes {', '.join(_TABLES)}; found {found}.")
    value = attributes[given[0]]
    if given[0] == "factor":
        if not isinstance(value, StructuredFactor):
            raise ModelError(f"{where}: `factor` must be a factor object such as Parity(), found {brief(value)}.")
        return value
    table = _numbers(value, where)
    if given[0] == "log_table":
        return table
    if not np.all((table >= 0) & (table < np.inf)):
        wrong = table[~((table >= 0) & (table < np.inf))][0]
        raise ModelError(f"{where}: its table has the entry {wrong:g}. Entries must be finite and at least 0.")
    with np.errstate(divide="ignore"):
        return np.log(table)


def _numbers(value: object, where: str) -> FloatArray:
    try:
        return as_numbers(value)
    except ValueError as error:
        raise ModelError(f"{where}: its table is not an array of numbers: {error}") from None


# ---- to networkx ------------------------------------------------------------------------------------------


@checks_types("kind")
def to_networkx(graph: FactorGraph, kind: str = "bipartite") -> Any:
    """Return a `networkx.Graph` with the whole model in its attributes, which `from_networkx` reads back.

    Args:
        graph: any graph. The node of a variable is its name, or its number if it has no name; the node of an observed
            variable has the attribute `observed`.
        kind: "bipartite" also has a node ("factor", a) for factor a, with `log_table` or, for a structured factor,
            `factor`. "pairwise" has tables on nodes and edges, for graphs whose factors have one or two variables;
            factors over the same variables are multiplied.
    """
    nx = needed("networkx", "to_networkx")
    if kind not in KINDS_OF_NETWORKX:
        raise OptionError(f"There is no kind {kind!r} of networkx graphs; {choices(str(kind), KINDS_OF_NETWORKX)}")
    as_graph(graph)
    made = nx.Graph() if graph.name is None else nx.Graph(name=graph.name)
    s = graph.structure
    labels: list[Any] = list(range(graph.num_vars) if s.variable_names is None else s.variable_names)
    evidence = graph.evidence
    for i, label in enumerate(labels):
        named = s.state_names[i] if s.state_names else None
        made.add_node(label, states=int(graph.card[i]) if named is None else list(named))
        if kind == "bipartite":
            made.nodes[label]["bipartite"] = 0
        if i in evidence:
            made.nodes[label]["observed"] = evidence[i] if named is None else named[evidence[i]]
    (_add_factors if kind == "bipartite" else _add_pairs)(made, graph, labels)
    return made


def _add_factors(made: Any, graph: FactorGraph, labels: list[Any]) -> None:
    for a in range(graph.num_factors):
        factor = graph.factor(a)
        scope = [labels[i] for i in graph.structure.scope(a).tolist()]
        what = {"factor": factor} if isinstance(factor, StructuredFactor) else {"log_table": np.array(factor)}
        made.add_node(("factor", a), bipartite=1, scope=tuple(scope), **what)
        for slot, label in enumerate(scope):
            made.add_edge(label, ("factor", a), slot=slot)


def _add_pairs(made: Any, graph: FactorGraph, labels: list[Any]) -> None:
    arity = graph.structure.arity
    odd = np.flatnonzero((arity < 1) | (arity > 2))
    if len(odd):
        raise ModelError(
            f"Factor {odd[0]} has {arity[odd[0]]} variables, but a pairwise graph holds only factors of one or two "
            'variables. Pass kind="bipartite", which holds any factor.',
            factor=int(odd[0]),
        )
    plain = [
        PlainFactor(tuple(graph.structure.scope(a).tolist()), graph.log_table(a)) for a in range(graph.num_factors)
    ]
    for scope, table in merged_scopes(plain):
        ends = tuple(labels[i] for i in scope)
        if len(ends) == 1:
            made.nodes[ends[0]]["log_table"] = table
        else:
            made.add_edge(*ends, scope=ends, log_table=table)
