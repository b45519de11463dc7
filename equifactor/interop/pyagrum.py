"""Conversion from and to pyAgrum: Bayesian networks and Markov random fields, in double precision on both sides.

In a tensor of pyAgrum the first variable is the fastest, and a conditional distribution has its child first. The axes
of its arrays are in the opposite order of its names. In this package the last variable is the fastest and the child is
last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.optional_packages import needed
from equifactor.base.options import choices
from equifactor.formats.conditionals import conditionals_of, names_of
from equifactor.graph.factor_graph import FactorGraph
from equifactor.interop.distributions import check_distribution
from equifactor.interop.plain_factors import linear, merged_scopes, plain_factors

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray

KINDS_OF_PYAGRUM = ("bayesian", "markov")


def from_pyagrum(model: Any) -> FactorGraph:
    """Return the factor graph of a `BayesNet` or `MarkovRandomField` of pyAgrum, with variables ordered by number.

    The names of states are the labels of pyAgrum, which are text for every class of variables: "1", "2", "3" for a
    range, "[0;1[" for an interval. If such a label looks like the number of another state, give evidence as text.
    Noisy-or and other distributions that pyAgrum computes become tables.

    Raises `ModelError` for a model of another class, and for distributions that do not sum to 1.
    """
    classes = {c.__name__ for c in type(model).__mro__ if c.__module__.startswith("pyagrum.")}
    if not classes & {"IBayesNet", "IMarkovRandomField"}:
        raise ModelError(f"Expected a BayesNet or MarkovRandomField of pyAgrum, found {brief(model)}.")
    ids = sorted(model.nodes())
    variables = {model.variable(i).name(): list(model.variable(i).labels()) for i in ids}
    factors: list[tuple[list[str], FloatArray]] = []
    if "IBayesNet" in classes:
        for i in ids:
            (child, *parents), table = _table(model.cpt(i))
            check_distribution(f"variable {child!r}", parents, table)
            factors.append(([*parents, child], np.moveaxis(table, 0, -1)))
    else:
        factors = [_table(model.factor(members)) for members in model.factors()]
    name = model.propertyWithDefault("name", "")
    return FactorGraph(variables, factors, name=name or None)


def _table(tensor: Any) -> tuple[list[str], FloatArray]:
    """Return the names of the variables of a tensor, and its values with one axis per variable.

    This does not use `toarray()`, which returns uninitialised memory for computed tensors such as a noisy-or (in
    pyAgrum 3.3.1).
    """
    return list(tensor.names), np.array(tensor.tolist(), np.float64).T


@checks_types("graph", "kind")
def to_pyagrum(graph: FactorGraph, kind: str) -> Any:
    """Return a pyAgrum model with the same distribution.

    Args:
        graph: any graph; it may have evidence if `kind` is "markov".
        kind: "bayesian" for a `BayesNet`, which needs one conditional distribution per variable; "markov" for a
            `MarkovRandomField`, which has one factor per set of variables, so factors over the same set are multiplied.

    Variables without names are called x0, x1, .., and states without names have the labels 0, 1, .. An observation
    becomes a factor that is 0 in all other states, structured factors become dense tables, and a variable without
    factors gets a factor of ones.

    Raises `ModelError` if a structured factor needs more than 2^20 entries, or a float cannot hold an entry.
    """
    if kind == "bayesian":
        return _bayes_net(graph)
    if kind == "markov":
        return _random_field(graph)
    raise OptionError(f"There is no kind {kind!r} of pyAgrum models; {choices(str(kind), KINDS_OF_PYAGRUM)}")


def _bayes_net(graph: FactorGraph) -> Any:
    what = "a BayesNet of pyAgrum"
    conditionals = conditionals_of(graph, what)
    model = _with_variables(needed("pyagrum", "to_pyagrum").BayesNet(), graph)
    names, _ = names_of(graph)
    for c in conditionals:
        for p in c.parents:
            model.addArc(names[p], names[c.child])
        _fill(model.cpt(names[c.child]), [names[i] for i in (*c.parents, c.child)], linear(c.log_table, what))
    return model


def _random_field(graph: FactorGraph) -> Any:
    what = "a MarkovRandomField of pyAgrum"
    factors = merged_scopes(plain_factors(graph, what))
    model = _with_variables(needed("pyagrum", "to_pyagrum").MarkovRandomField(), graph)
    names, _ = names_of(graph)
    for scope, log_table in factors:
        own = [names[i] for i in scope]
        model.addFactor(own)
        _fill(model.factor(own), own, linear(log_table, what))
    return model


def _with_variables(model: Any, graph: FactorGraph) -> Any:
    gum = needed("pyagrum", "to_pyagrum")
    if graph.name is not None:
        model.setProperty("name", graph.name)
    for name, states in zip(*names_of(graph), strict=True):
        model.add(gum.LabelizedVariable(name, name, states))
    return model


def _fill(tensor: Any, names: list[str], table: FloatArray) -> None:
    """Write a table, whose axes are the variables `names`, into a pyAgrum tensor with its own order of variables."""
    axes = [names.index(name) for name in tensor.names]
    tensor.fillWith(np.transpose(table, axes).ravel(order="F").tolist())
