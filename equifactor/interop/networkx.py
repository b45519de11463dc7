"""Graphs of networkx: bipartite graphs of variables and factors, and graphs with tables on nodes and edges.

Attributes, in both directions:

states     of a variable: the number of its states, or the list of their names
table      of a factor, node or edge: its table, one axis per variable; or `log_table`, natural logarithms
factor     of a factor in place of a table: `Parity()`, `Clause()`, ..
scope      of a factor or edge: its variables in the order of the axes
slot       of an edge between variable and factor: the axis of this variable, counted from 0
observed   of a variable: the state it was seen in
bipartite  of every node of a graph with factors: 0 for a variable, 1 for a factor, as networkx has it
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.optional_packages import needed
from equifactor.base.options import choices
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.reading.inputs import as_list, as_numbers
from equifactor.graph.structured_factor import StructuredFactor
from equifactor.interop.labels import state_names, variable_names
from equifactor.interop.plain_factors import PlainFactor, merged_scopes

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

KINDS_OF_NETWORKX = ("bipartite", "pairwise")
_TABLES = ("table", "log_table", "factor")  # of which a factor has one
_SYMMETRIC = ("parity", "potts", "truncated_linear")  # kinds in which variables may change places, without labels

Label = Hashable


# ---- from networkx ----------------------------------------------------------------------------------------


def from_networkx(graph: Any) -> FactorGraph:
    """The factor graph of a graph of networkx, which is of one of two forms.

    **Bipartite.** Every node has the attribute `bipartite`: 0 for variables, with `states`, and 1 for factors, with
    `table`, `log_table` or `factor`. The axes of a table are those of `scope` on the factor, or of `slot` on its edges.

    **Pairwise.** Every node is a variable with `states`, and may have a `table` or `log_table` of its own (its length
    then serves for `states`). Every edge has one with an axis for each end: in the order of `scope`, or tail first in a
    directed graph. Without `scope`, the table of an undirected edge must be symmetric. Parallel edges are factors each.

    Variables are in the order of the nodes; a node that is no text is named by its text, except that nodes 0, 1, ..
    whose states have no names have none themselves. A variable with `observed` becomes evidence.

    Raises `ModelError` for anything that is missing, or that could be read in two ways.
    """
    if type(graph).__module__.startswith("pgmpy."):  # its models are graphs of networkx, without these attributes
        raise ModelError(f"a {type(graph).__name__} is a model of pgmpy, which from_pgmpy reads")
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed", "is_multigraph")):
        raise ModelError(f"expected a graph of networkx, found {brief(graph)}")
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
    """Variables as `FactorGraph` takes them."""
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
        return len(_numbers(own, f"node {brief(node)}").ravel())
    raise ModelError(
        f"node {brief(node)} needs the attribute states, the number of its states or a list of their names; found "
        f"{brief(given) if given is not None else f'the attributes {sorted(map(str, attributes))}'}"
    )


def _check_bipartite(graph: Any, sides: Mapping[Label, Any]) -> None:
    odd = [node for node, side in sides.items() if side not in (0, 1)]
    if odd:
        raise ModelError(
            f"node {brief(odd[0])} has bipartite={sides[odd[0]]!r}; in a graph with factors every node has 0, for a "
            "variable, or 1, for a factor"
        )
    if graph.is_directed() or graph.is_multigraph():
        raise ModelError(
            f"a bipartite graph of variables and factors is a networkx.Graph, found a {type(graph).__name__}; "
            "networkx.Graph(graph) drops directions and parallel edges"
        )
    for u, v in graph.edges():
        if sides[u] == sides[v]:
            side = "factors" if sides[u] else "variables"
            raise ModelError(f"the edge from {brief(u)} to {brief(v)} joins two {side}; an edge joins one of each")


def _of_bipartite(graph: Any, sides: Mapping[Label, Any]) -> Iterable[tuple[list[Label], Any]]:
    for node in graph.nodes():
        if sides[node]:
            where, attributes = f"factor {brief(node)}", graph.nodes[node]
            yield _scope_of_factor(graph, node, where, attributes.get("scope")), _log_table(attributes, where)


def _scope_of_factor(graph: Any, node: Label, where: str, stated: Any) -> list[Label]:
    around = list(graph.neighbors(node))
    slots = [graph.edges[node, v].get("slot") for v in around]
    scope = None if stated is None else as_list(stated)
    if scope is not None and (len(scope) != len(around) or set(scope) != set(around)):
        raise ModelError(f"{where} has scope {brief(scope)}, but its neighbours are {brief(around)}")
    if any(slot is not None for slot in slots):
        if not all(isinstance(s, (int, np.integer)) for s in slots) or sorted(slots) != list(range(len(around))):
            raise ModelError(f"the edges of {where} need the slots 0 to {len(around) - 1}, found {brief(slots)}")
        by_slot = [around[k] for k in np.argsort(slots)]
        if scope not in (None, by_slot):
            raise ModelError(f"{where} has scope {brief(scope)}, but the slots of its edges say {brief(by_slot)}")
        return by_slot
    if scope is None and len(around) > 1:
        raise ModelError(
            f"{where} has {len(around)} variables, and nothing says which axis of its table is whose; give it the "
            "attribute scope, or its edges the attribute slot"
        )
    return around if scope is None else scope


def _of_pairs(graph: Any) -> Iterable[tuple[list[Label], Any]]:
    for node, attributes in graph.nodes(data=True):
        if any(key in attributes for key in _TABLES):
            yield [node], _log_table(attributes, f"node {brief(node)}")
    for u, v, attributes in graph.edges(data=True):
        where = f"the edge from {brief(u)} to {brief(v)}"
        table = _log_table(attributes, where)
        scope = as_list(attributes.get("scope"))
        if scope is not None and (len(scope) != 2 or set(scope) != {u, v}):
            raise ModelError(f"{where} has scope {brief(scope)}, which is not its two ends")
        if scope is None and not graph.is_directed() and not _is_symmetric(table):
            raise ModelError(
                f"{where} has no direction and its table is not symmetric, so nothing says which axis is whose; give "
                f"the edge the attribute scope=({u!r}, {v!r}) or ({v!r}, {u!r})"
            )
        yield scope or [u, v], table


def _is_symmetric(table: FloatArray | StructuredFactor) -> bool:
    """Whether the two variables of a factor may change places."""
    if isinstance(table, StructuredFactor):
        return table.kind in _SYMMETRIC and getattr(table, "labels", None) is None
    return table.ndim == 2 and table.shape[0] == table.shape[1] and np.array_equal(table, table.T)


def _log_table(attributes: Mapping[str, Any], where: str) -> FloatArray | StructuredFactor:
    given = [key for key in _TABLES if key in attributes]
    if len(given) != 1:
        found = " and ".join(given) if given else f"the attributes {sorted(map(str, attributes))}"
        raise ModelError(f"{where} needs one of the attributes {', '.join(_TABLES)}; found {found}")
    value = attributes[given[0]]
    if given[0] == "factor":
        if not isinstance(value, StructuredFactor):
            raise ModelError(f"the attribute factor of {where} is such as Parity(), found {brief(value)}")
        return value
    table = _numbers(value, where)
    if given[0] == "log_table":
        return table
    if not np.all((table >= 0) & (table < np.inf)):
        raise ModelError(f"the table of {where} holds {table[~((table >= 0) & (table < np.inf))][0]:g}; it needs >= 0")
    with np.errstate(divide="ignore"):
        return np.log(table)


def _numbers(value: object, where: str) -> FloatArray:
    try:
        return as_numbers(value)
    except ValueError as error:
        raise ModelError(f"the table of {where} is not an array of numbers: {error}") from None


# ---- to networkx ------------------------------------------------------------------------------------------


def to_networkx(graph: FactorGraph, kind: str = "bipartite") -> Any:
    """A `networkx.Graph` with the whole model in its attributes, which `from_networkx` reads back.

    Args:
        graph: any graph. The nodes of variables are their names, or their numbers where they have none; an observed
            variable has the attribute `observed`.
        kind: "bipartite" has a node ("factor", a) for factor a besides, with `log_table` or (of another kind) `factor`;
            "pairwise" has tables on nodes and edges, for graphs whose factors have one or two variables: factors over
            the same variables are multiplied.
    """
    nx = needed("networkx", "to_networkx")
    if kind not in KINDS_OF_NETWORKX:
        raise OptionError(f"there is no kind {kind!r} of graphs for networkx; {choices(str(kind), KINDS_OF_NETWORKX)}")
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
            f"a pairwise graph has factors of one or two variables, and factor {odd[0]} has {arity[odd[0]]}; "
            'kind="bipartite" holds any',
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
