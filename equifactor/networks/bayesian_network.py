"""`BayesianNetwork`: a factor graph in which every factor is the distribution of a variable given its parents."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, brief
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.interventions import mutilated, states_set
from equifactor.graph.parents import Families, network_of
from equifactor.graph.reading.inputs import as_list
from equifactor.networks.conditional_table import ConditionalTable
from equifactor.networks.plates import repeated
from equifactor.networks.separation import Separation, closure, open_path, path_text
from equifactor.networks.stated_tables import graph_of_tables, tables_of_arrows
from equifactor.questions.joint import part_of
from equifactor.show import graph_display

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.graph.reading.inputs import Variable
    from equifactor.networks.causal_effect import CausalEffect
    from equifactor.networks.divergence import Divergence
    from equifactor.networks.plates import Plates
    from equifactor.networks.stated_tables import States, Tables

_ADVICE = "Use a FactorGraph for a model that is not a network."


class BayesianNetwork(FactorGraph):
    """A Bayesian network: a factor graph that knows parents and children. Every function takes it as a graph.

    Args:
        source: a mapping from variable to its conditional table; the path of a model file; a `FactorGraph` in which
            every factor is the distribution of one variable; or a network of pgmpy or pyAgrum. A table is a
            distribution for a variable without parents, and otherwise a pair (parents, rows). A row is a mapping from
            state to probability, under a key with the states of the parents; arrays [*parents, states] do as well,
            and so do structured factors such as `NoisyOr`. Parents, states and tables are in any order. A table that
            is None is uniform, for `ef.fit`; a list of pairs (parent, child) is a network of such tables.
        states: the states of variables whose tables do not name them, or the order of their states.
        name: the name of the network.
        plates: the members of groups, or their numbers, for tables of repeated variables. With
            `plates={"student": ["anna", "ben"]}` the table of `grade[student]` is one for each of them, and `ef.fit`
            learns it as one.

    Examples:
        >>> from equifactor import BayesianNetwork, solve
        >>> lawn = BayesianNetwork({
        ...     "grass": (["sprinkler", "rain"], {
        ...         ("off", "no"): {"dry": 1.0, "wet": 0.0}, ("off", "yes"): {"dry": 0.2, "wet": 0.8},
        ...         ("on", "no"): {"dry": 0.1, "wet": 0.9}, ("on", "yes"): {"wet": 0.99, "dry": 0.01},
        ...     }),
        ...     "sprinkler": ("rain", {"no": {"off": 0.6, "on": 0.4}, "yes": {"off": 0.99, "on": 0.01}}),
        ...     "rain": {"no": 0.8, "yes": 0.2},
        ... })
        >>> lawn.parents("grass"), lawn.children("rain")
        (('sprinkler', 'rain'), ('grass', 'sprinkler'))
        >>> print(lawn.cpt("sprinkler"))
        rain  sprinkler = off  sprinkler = on
        -------------------------------------
        no           0.600000        0.400000
        yes          0.990000        0.010000
        >>> solve(lawn, evidence={"grass": "wet"}).marginals["rain"].round(3)
        array([0.642, 0.358])
        >>> print(lawn.d_separated("sprinkler", "rain", given=["grass"]))
        not d-separated: sprinkler <- rain is an open path
    """

    __slots__ = ("_families", "child_lists", "parent_lists", "tied")

    _families: Families
    parent_lists: list[list[int]]  # [V] the parents of each variable, in the order of its factor
    child_lists: list[list[int]]
    tied: tuple[tuple[int, ...], ...]  # groups of factors that share one table, because they belong to a plate

    def __init__(
        self, source: Any, states: States | None = None, *, name: str | None = None, plates: Plates | None = None
    ) -> None:
        tied = source.tied if isinstance(source, BayesianNetwork) else ()
        if isinstance(source, (list, tuple)):
            source = tables_of_arrows(source, states)
        if plates is not None:
            if not isinstance(source, Mapping):
                raise ModelError("plates= goes with a mapping of tables.")
            source, states, tied = repeated(source, states, plates)
        graph = _graph_of(source, states, name)
        self._set(graph.structure, graph.log_phi, graph.observed, name or graph.name)
        object.__setattr__(self, "tied", tied)
        self._find_families()

    def _find_families(self) -> None:
        families = network_of(self, "A BayesianNetwork needs distributions", _ADVICE)
        s = self.structure
        parents = [s.scope(a).tolist() for a in families.factor_of_child.tolist()]
        children: list[list[int]] = [[] for _ in parents]
        for i, scope in enumerate(parents):
            scope.remove(i)
            for p in scope:
                children[p].append(i)
        for field, value in (("_families", families), ("parent_lists", parents), ("child_lists", children)):
            object.__setattr__(self, field, value)

    @classmethod
    def trusted(cls, *args: Any) -> FactorGraph:
        """Return a plain factor graph: what becomes of a network under evidence need not be a network."""
        return FactorGraph.trusted(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_ties, (self.graph, self.tied)

    def __repr__(self) -> str:
        return f"BayesianNetwork({graph_display.one_line(self)})"

    @property
    def graph(self) -> FactorGraph:
        """The same model as a plain factor graph; the arrays are shared."""
        return FactorGraph.trusted(self.structure, self.log_phi, None, self.name)

    def with_potentials(self, phi: Any, *, log: bool = False) -> BayesianNetwork:
        """Return the same network with other tables [T], whose rows are checked."""
        return _with_ties(super().with_potentials(phi, log=log), self.tied)

    def renamed(self, name: str | None) -> BayesianNetwork:
        """Return the same network under another name."""
        return _with_ties(super().renamed(name), self.tied)

    # ---- parents and children ---------------------------------------------------------------------------

    def names_of(self, variables: Iterable[int]) -> tuple[int | str, ...]:
        """Return the names of variables given by number; the numbers if the variables have no names."""
        names = self.variable_names
        return tuple(i if names is None else names[i] for i in variables)

    def _numbers(self, variables: Any, what: str) -> list[int]:
        """Return the numbers of one variable or of several."""
        is_one = isinstance(variables, str) or not hasattr(variables, "__iter__")
        several = [variables] if is_one else as_list(variables)
        if several is None:
            raise ModelError(f"{what} must be a variable or a list of variables, found {brief(variables)}.")
        return [self.variable(v) for v in several]

    @property
    def edges(self) -> tuple[tuple[int | str, int | str], ...]:
        """Pairs (parent, child), ordered by child."""
        return tuple((*self.names_of([p]), *self.names_of([i])) for i, own in enumerate(self.parent_lists) for p in own)  # type: ignore[misc]

    @property
    def order(self) -> tuple[int | str, ...]:
        """All variables, parents before children."""
        return self.names_of(self._families.order.tolist())

    def parents(self, variable: Variable) -> tuple[int | str, ...]:
        """Return the parents of a variable, in the order of the axes of its table."""
        return self.names_of(self.parent_lists[self.variable(variable)])

    def children(self, variable: Variable) -> tuple[int | str, ...]:
        """Return the children of a variable."""
        return self.names_of(self.child_lists[self.variable(variable)])

    def ancestors(self, variable: Variable) -> tuple[int | str, ...]:
        """Return the parents of a variable, their parents, and so on, in the order of the variables."""
        i = self.variable(variable)
        return self.names_of(sorted(closure([i], self.parent_lists) - {i}))

    def descendants(self, variable: Variable) -> tuple[int | str, ...]:
        """Return the children of a variable, their children, and so on, in the order of the variables."""
        i = self.variable(variable)
        return self.names_of(sorted(closure([i], self.child_lists) - {i}))

    def markov_blanket(self, variable: Variable) -> tuple[int | str, ...]:
        """Return the parents, the children and the other parents of the children of a variable.

        Given them, the variable is independent of all others.
        """
        i = self.variable(variable)
        found = {
            *self.parent_lists[i],
            *self.child_lists[i],
            *(p for c in self.child_lists[i] for p in self.parent_lists[c]),
        }
        return self.names_of(sorted(found - {i}))

    def cpt(self, variable: Variable) -> ConditionalTable:
        """Return the conditional table of a variable with the names of its rows and columns."""
        i = self.variable(variable)
        a = int(self._families.factor_of_child[i])
        log_table = np.moveaxis(self.log_table(a), int(self._families.slot[a]), -1)
        values = np.exp(log_table)
        short = np.round(values, 15)  # 0.1 and not 0.10000000000000002, where both have the same logarithm
        with np.errstate(divide="ignore"):
            values = np.where(np.log(short) == log_table, short, values)
        scope = [*self.parent_lists[i], i]
        return ConditionalTable(values, part_of(self.structure, scope), self.names_of(scope))

    def d_separated(
        self, a: Variable | Iterable[Variable], b: Variable | Iterable[Variable], given: Any = ()
    ) -> Separation:
        """Return whether variables are d-separated given others, with an open path as the reason if they are not.

        Variables that are d-separated are independent given the others, whatever numbers the tables have.
        """
        first, second, seen = self._numbers(a, "a"), self._numbers(b, "b"), self._numbers(given, "given")
        both = {*first} & {*second} or ({*first, *second} & {*seen})
        if both:
            i = min(both)
            raise ModelError(f"Variable {self.names_of([i])[0]} is in two of a, b and given. Name it in one of them.")
        path = open_path(self.parent_lists, self.child_lists, first, second, seen)
        if path is None:
            return Separation(True)
        names = self.names_of(range(self.num_vars))
        return Separation(False, self.names_of(i for i, _ in path), path_text(path, names, seen))

    # ---- action -----------------------------------------------------------------------------------------

    def do(self, states: Mapping[Any, Any]) -> BayesianNetwork:
        """Return the network after variables were set from outside: their tables are certain of the given states.

        `ef.solve(network, do={..})` asks about it directly.
        """
        return BayesianNetwork(mutilated(self, states_set(self, states)))

    def effect(
        self,
        cause: Variable,
        outcome: Variable,
        *,
        adjust: Iterable[Variable] | None = None,
        latent: Iterable[Variable] = (),
    ) -> CausalEffect:
        """Return the effect of setting one variable on another, by adjustment for a back-door set.

        Args:
            cause: the variable that is set.
            outcome: the variable whose distribution is wanted.
            adjust: the variables to adjust for, which are checked; by default the smallest set in whose strata every
                state of the cause occurs.
            latent: variables that nobody can observe, for which the effect cannot be adjusted.

        Raises:
            ModelError: if no set of observed variables identifies the effect, with the path that stays open.
        """
        from equifactor.networks.causal_effect import effect_of

        chosen = None if adjust is None else self._numbers(adjust, "adjust")
        return effect_of(self, cause, outcome, chosen, self._numbers(latent, "latent"))

    def divergence(self, other: FactorGraph, *, memory_limit: float = 1.0, seed: int = 0) -> Divergence:
        """Return how far another model over the same variables is from this one, and which tables differ most.

        Args:
            other: a network or graph. Variables are matched by name, and states by name in any order.
            memory_limit: GiB for exact sums. If they do not fit, the answer is a mean over samples of this network.
            seed: of these samples.
        """
        from equifactor.networks.divergence import divergence

        return divergence(self, other, memory_limit=memory_limit, seed=seed)

    # ---- other packages ---------------------------------------------------------------------------------

    def to_pgmpy(self) -> Any:
        """Return a `DiscreteBayesianNetwork` of pgmpy."""
        from equifactor.interop.pgmpy import to_pgmpy

        return to_pgmpy(self, "bayesian")

    def to_pyagrum(self) -> Any:
        """Return a `BayesNet` of pyAgrum."""
        from equifactor.interop.pyagrum import to_pyagrum

        return to_pyagrum(self, "bayesian")


def _with_ties(graph: FactorGraph, tied: tuple[tuple[int, ...], ...]) -> BayesianNetwork:
    network = BayesianNetwork(graph)
    object.__setattr__(network, "tied", tied)
    return network


def _graph_of(source: FactorGraph | Tables | PathLike, states: States | None, name: str | None) -> FactorGraph:
    """Return the factor graph of anything that describes a network."""
    if isinstance(source, Mapping):
        return graph_of_tables(source, states, name)
    if states is not None:
        raise ModelError("states= goes with a mapping of tables. Other sources name their states.")
    if isinstance(source, FactorGraph):
        return source
    if isinstance(source, (str, os.PathLike)):
        from equifactor.formats import read_graph

        return read_graph(source)
    package = type(source).__module__.partition(".")[0]
    if package == "pgmpy":
        from equifactor.interop.pgmpy import from_pgmpy

        return from_pgmpy(source)
    if package == "pyagrum":
        from equifactor.interop.pyagrum import from_pyagrum

        return from_pyagrum(source)
    raise ModelError(
        "A BayesianNetwork takes a mapping of tables, pairs (parent, child), the path of a model file, a FactorGraph, "
        f"or a network of pgmpy or pyAgrum; found {brief(source)}."
    )
