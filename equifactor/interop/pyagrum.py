"""Models of pyAgrum: Bayesian networks and Markov random fields, in double precision on both sides.

The first variable of a tensor of pyAgrum is the fastest, and its arrays have the axes in the opposite order of its
names; a conditional distribution has its child first. Here the last variable is the fastest, and the child is last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

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
    """The factor graph of a `BayesNet` or `MarkovRandomField` of pyAgrum, variables in the order of their numbers.

    States are named by the labels of pyAgrum, which are text for every class of variables: "1", "2", "3" for a range,
    "[0;1[" for an interval. Where such a label is a number at another place, evidence is given as text. Noisy-or and
    other distributions that pyAgrum computes become tables.

    Raises `ModelError` for a model of another class, and for distributions that do not sum to 1.
    """
    classes = {c.__name__ for c in type(model).__mro__ if c.__module__.startswith("pyagrum.")}
    if not classes & {"IBayesNet", "IMarkovRandomField"}:
        raise ModelError(f"expected a BayesNet or a MarkovRandomField of pyAgrum, found {brief(model)}")
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
    """The names of a tensor's variables, and its values with one axis for each.

    Not by its `toarray()`: for a tensor that is computed, such as a noisy-or, that is memory that was never written
    (pyAgrum 3.3.1).
    """
    return list(tensor.names), np.array(tensor.tolist(), np.float64).T


def to_pyagrum(graph: FactorGraph, kind: str) -> Any:
    """A model of pyAgrum that is the same distribution.

    Args:
        graph: any graph; with evidence, only where `kind` is "markov".
        kind: "bayesian" for a `BayesNet`, which needs one conditional distribution per variable; "markov" for a
            `MarkovRandomField`, where factors over the same set of variables are multiplied, since it holds one for
            each set.

    Variables without a name are called x0, x1, .., and states without names have the labels 0, 1, .. Observations
    become factors that are 0 at other states, factors of other kinds become tables, and a variable in no factor gets
    one of ones.

    Raises `ModelError` where a table has more than 2^20 entries or an entry that a float cannot hold.
    """
    if kind == "bayesian":
        return _bayes_net(graph)
    if kind == "markov":
        return _random_field(graph)
    raise OptionError(f"there is no kind {kind!r} of pyAgrum's models; {choices(str(kind), KINDS_OF_PYAGRUM)}")


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
    """Write a table, whose axes are the variables `names`, into a tensor of pyAgrum, whatever order this has."""
    axes = [names.index(name) for name in tensor.names]
    tensor.fillWith(np.transpose(table, axes).ravel(order="F").tolist())
