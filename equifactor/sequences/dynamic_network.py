"""`DynamicNetwork`: a Bayesian network in time, with one set of tables for the first slice and one for all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.errors import ModelError, OptionError, SolveError, brief
from equifactor.base.status import Status
from equifactor.graph.reading.inputs import listed
from equifactor.networks.bayesian_network import BayesianNetwork
from equifactor.networks.forward_samples import drawn
from equifactor.networks.plates import repeated
from equifactor.networks.stated_tables import parents_and_table
from equifactor.sequences.best_sequences import best_sequences
from equifactor.sequences.chain_sums import slice_sums
from equifactor.sequences.observed_rows import Sequences, read_sequences, whole_number
from equifactor.sequences.slice_marginals import slice_marginals
from equifactor.sequences.slice_model import Family, SliceModel
from equifactor.sequences.slice_sums import Observed, SliceSums
from equifactor.sequences.trajectory import StateSequence, Trajectory
from equifactor.sequences.unrolled_answers import decoded, filtered, log_z_of, smoothed, solved

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.networks.plates import Plates
    from equifactor.networks.stated_tables import States, Tables
    from equifactor.sequences.dynamic_fit import FittedSequences

_BEFORE, _NOW = "[t-1]", "[t]"
_MOST_STATES = 2.0**24  # Joint states of a slice: 128 MiB a message. Chosen by hand.
_BATCH_STATES = 2.0**16  # Joint states of all sequences that are computed side by side. Chosen by hand.


class DynamicNetwork:
    """A Bayesian network in time: a first slice, and a transition from each slice to the next.

    Args:
        first: the tables of the first slice, or anything else that makes a `BayesianNetwork`.
        then: the tables of all later slices, for the variables whose tables differ from those of the first slice. A
            parent written `rain[t-1]` is the variable of the slice before; `rain[t]` is the same as `rain`.
        states: the states of variables whose tables do not name them, or the order of their states.
        plates: the members of groups, or their numbers, for tables of repeated variables, as in `BayesianNetwork`.

    Examples:
        >>> from equifactor import DynamicNetwork
        >>> weather = DynamicNetwork(
        ...     first={
        ...         "rain": {"no": 0.5, "yes": 0.5},
        ...         "umbrella": ("rain", {"no": {"no": 0.8, "yes": 0.2}, "yes": {"no": 0.1, "yes": 0.9}}),
        ...     },
        ...     then={"rain": ("rain[t-1]", {"no": {"no": 0.7, "yes": 0.3}, "yes": {"no": 0.3, "yes": 0.7}})},
        ... )
        >>> seen = {"umbrella": ["yes", "yes", None, "no"]}
        >>> weather.filter(seen)["rain"].round(3)[:, 1]
        array([0.818, 0.883, 0.653, 0.138])
        >>> weather.decode(seen)["rain"]
        ['yes', 'yes', 'yes', 'no']
    """

    def __init__(self, first: Any, then: Tables, states: States | None = None, *, plates: Plates | None = None) -> None:
        is_made = isinstance(first, BayesianNetwork) and plates is None
        self.first = first if is_made else BayesianNetwork(first, states, plates=plates)
        if self.first.variable_names is None:
            raise ModelError("A DynamicNetwork needs variables with names.")
        if not isinstance(then, Mapping):
            raise ModelError(f"then= must be a mapping from variable to its table, found {brief(then)}.")
        self.names: tuple[str, ...] = self.first.variable_names
        self.states = {n: tuple(self.first.structure.states_of(i)) for i, n in enumerate(self.names)}
        then = dict(_of_slice(name, stated) for name, stated in then.items())
        then, _, tied = (then, None, ()) if plates is None else repeated(then, None, plates)
        self.transition = self._two_slices(then)
        self.shared = tuple(n for n in self.names if n not in then)  # variables with one table for all slices
        self._families = self._read_families()
        groups = [tuple(self.names.index([*then][k]) for k in own) for own in tied]
        both = [own for own in self.first.tied if self.names[own[0]] in self.shared]
        self.tied = [*self.first.tied], [*groups, *both]  # variables with one table, in the first slice and later

    def _two_slices(self, then: Tables) -> BayesianNetwork:
        """Return the network of a slice and of the variables of the slice before on which it depends."""
        tables: dict[str, Any] = {}
        for name, stated in then.items():
            if name not in self.names:
                raise ModelError(
                    f"then= has a table of {name!r}, but the first slice has only {', '.join(self.names)}."
                )
            for parent in parents_and_table(name, stated)[0]:
                own = parent.removesuffix(_BEFORE)
                if own != parent and own in self.names:
                    tables[parent] = np.full(len(self.states[own]), 1.0 / len(self.states[own]))
        if not tables:
            raise ModelError(
                "No table of then= has a parent in the slice before, such as 'rain[t-1]'. Then the slices are "
                "independent, and a BayesianNetwork describes each."
            )
        states = {n + end: self._stated(n) for n in self.names for end in ("", _BEFORE) if not end or n + end in tables}
        tables.update({n: then[n] if n in then else self.first.cpt(n) for n in self.names})
        return BayesianNetwork(tables, states)

    def _read_families(self) -> tuple[list[Family], list[Family]]:
        V = len(self.names)
        number = {n: V + i for i, n in enumerate(self.names)} | {n + _BEFORE: i for i, n in enumerate(self.names)}
        found = []
        for network in (self.first, self.transition):
            tables = [network.cpt(n) for n in self.names]
            found.append([Family(tuple(number[str(v)] for v in t.names), np.asarray(t.values)) for t in tables])
        return found[0], found[1]

    def model(self, sequences: Sequences) -> SliceModel:
        """Return the arrays of the network, for those who sum over sequences."""
        V = len(self.names)
        cards = [len(self.states[n]) for n in self.names]
        card = {i + shift: d for i, d in enumerate(cards) for shift in (0, V)}
        return SliceModel(card, *self._families, sequences.tables)

    def __repr__(self) -> str:
        before = ", ".join(n.removesuffix(_BEFORE) for n in self.transition.variable_names or () if n.endswith(_BEFORE))
        return f"DynamicNetwork({len(self.names)} variables; the next slice depends on {before})"

    def after(self, before: Mapping[str, FloatArray]) -> BayesianNetwork:
        """Return the network of one later slice, given the distributions of the variables before, as independent."""
        tables: dict[str, Any] = {}
        states: dict[str, Any] = {}
        wanted = [
            n.removesuffix(_BEFORE) for n in map(str, self.transition.variable_names or ()) if n.endswith(_BEFORE)
        ]
        if not isinstance(before, Mapping) or not before.keys() >= set(wanted):
            raise ModelError(
                f"before must be a mapping with the distributions of {listed(wanted)}, found {brief(before)}."
            )
        for name in map(str, self.transition.variable_names or ()):
            table = self.transition.cpt(name)
            own = before[name.removesuffix(_BEFORE)] if name.endswith(_BEFORE) else table.values
            tables[name] = (list(table.parents), own) if table.parents else own
            states[name] = self._stated(name.removesuffix(_BEFORE))
        return BayesianNetwork(tables, states)

    def with_tables(self, first: list[FloatArray], then: list[FloatArray]) -> DynamicNetwork:
        """Return the same network with other tables, in the order of the variables and with the same axes."""
        new = []
        for network, tables in ((self.first, first), (self.transition, then)):
            own = dict(zip(self.names, tables, strict=True))
            stated = {n: network.cpt(n) for n in map(str, network.variable_names or ())}
            new.append(
                {
                    n: (list(c.parents), own.get(n, c.values)) if c.parents else own.get(n, c.values)
                    for n, c in stated.items()
                }
            )
        later = {n: t for n, t in new[1].items() if n in self.names and n not in self.shared}
        network = DynamicNetwork(new[0], later, {n: self._stated(n) for n in self.names})
        network.tied = self.tied
        return network

    # ---- questions --------------------------------------------------------------------------------------

    def filter(self, observations: Any, *, solver: Any = None, **options: Any) -> Any:
        """Return the distribution of every variable in each slice, given the observations up to that slice.

        Args:
            observations: a data frame with a row per slice, a mapping from variable to its states in all slices, a
                list with a mapping for each slice, or an array [T, V] of state numbers. Missing values are None, NaN
                or, in arrays, -1. A value may be soft evidence: weights of the states, as a mapping or a list; an array
                [T, states] holds those of one variable. A list of sequences is many sequences, and a number is a
                length without observations.
            solver: by default exact sums, and `auto` where the joint states of a slice are too many for them. Another
                solver gets one slice after the other, with the variables of the slice before as independent.
            options: further options of `ef.solve` for that solver, such as `time_limit`, which counts for a slice.

        Returns:
            A `Trajectory`, or a list of them for many sequences.
        """
        sequences = read_sequences(self.first.structure, observations)
        return sequences.answers(self._distributions(sequences, False, solver, options))

    def smooth(self, observations: Any, *, solver: Any = None, **options: Any) -> Any:
        """Return the distribution of every variable in each slice, given all observations; see `filter`.

        Another solver than exact sums gets the unrolled network, once for each sequence.
        """
        sequences = read_sequences(self.first.structure, observations)
        return sequences.answers(self._distributions(sequences, True, solver, options))

    def predict(self, observations: Any, steps: int = 1, *, solver: Any = None, **options: Any) -> Any:
        """Return the distribution of every variable in the slices after the observations; see `filter`."""
        V = len(self.names)
        steps = whole_number("steps", steps, 1, V)
        sequences = read_sequences(self.first.structure, observations)
        longer = replace(sequences, codes=[np.concatenate([x, np.full((steps, V), -1)]) for x in sequences.codes])
        found = self._distributions(longer, False, solver, options)
        return sequences.answers([own.since(len(x)) for own, x in zip(found, sequences.codes, strict=True)])

    def decode(self, observations: Any, *, solver: Any = None, **options: Any) -> Any:
        """Return the most probable states of all variables in all slices together; see `filter` and `smooth`.

        Returns:
            A `StateSequence`, or a list of them for many sequences.
        """
        sequences = read_sequences(self.first.structure, observations)
        model = self.model(sequences)
        if self.solves(model, solver, options):
            return sequences.answers(self._solved(decoded, sequences, solver, options))
        found: list[Any] = [None] * len(sequences)
        for numbers, codes in sequences.batches(max(1, int(_BATCH_STATES / model.num_states)), one_length=True):
            best, scores = best_sequences(model, codes)
            for n, own, score in zip(numbers, best, scores.tolist(), strict=True):
                found[n] = self._sequence(own, score)
        return sequences.answers(found)

    def log_likelihood(self, observations: Any, *, solver: Any = None, **options: Any) -> Any:
        """Return ln p(observations), -inf where they are impossible; a list for many sequences; see `smooth`."""
        sequences = read_sequences(self.first.structure, observations)
        return sequences.answers(self.log_likelihoods(sequences, solver, options))

    def log_likelihoods(self, sequences: Sequences, solver: Any, options: dict[str, Any]) -> list[float]:
        """Return ln p(observations) of sequences that were read before."""
        if self.solves(self.model(sequences), solver, options):
            how = self.how(solver, options)
            return [log_z_of(solved(self, seen, "PR", how)) for seen in self.seen_in(sequences)]
        found = [0.0] * len(sequences)
        for numbers, sums in self._sums(sequences):
            for _ in sums.filtered():
                pass
            for n, value in zip(numbers, sums.log_z.tolist(), strict=True):
                found[n] = value
                if value == -np.inf:
                    self.check_impossible(sums.model, sequences.codes[n])
        return found

    def fit(
        self,
        observations: Any,
        *,
        iterations: int = 100,
        tolerance: float = 1e-6,
        pseudo_count: float = 0.0,
        solver: Any = None,
        **options: Any,
    ) -> FittedSequences:
        """Return this network with tables that make the observations more probable (EM); see `filter`.

        Args:
            observations: one sequence or many. Without missing values the tables are relative frequencies.
            iterations: at most this number of rounds.
            tolerance: stop when a round raises the mean log likelihood of a slice by less than this.
            pseudo_count: added to the count of every entry that is possible today.
            solver: as in `smooth`, for the expected counts of each round.
            options: as in `smooth`.
        """
        from equifactor.sequences.dynamic_fit import fitted_sequences

        return fitted_sequences(self, observations, iterations, tolerance, pseudo_count, solver, options)

    def unroll(self, length: int) -> BayesianNetwork:
        """Return the network of a number of slices, with variables such as `rain[0]`, `rain[1]`, .."""
        length = whole_number("length", length, 1, 64 * len(self.names))
        first, then = ({n: network.cpt(n) for n in self.names} for network in (self.first, self.transition))
        tables, states = {}, {}
        for t in range(length):
            for name, table in (first if t == 0 else then).items():
                places = [f"{str(p).removesuffix(_BEFORE)}[{t - str(p).endswith(_BEFORE)}]" for p in table.parents]
                tables[f"{name}[{t}]"] = (places, table.values) if places else table.values
                states[f"{name}[{t}]"] = self._stated(name)
        return BayesianNetwork(tables, states)

    def sample(self, length: int, n: int = 1, *, seed: int = 0) -> list[dict[str, list[Any]]]:
        """Return n sequences drawn from the network, each a mapping from variable to its states in all slices."""
        V = len(self.names)
        length = whole_number("length", length, 1, V)
        n = whole_number("n", n, 0, V * length)
        rng = np.random.default_rng(whole_number("seed", seed, 0))
        states = np.zeros((n, length, V), np.int64)
        orders = [
            [self.names.index(str(v)) for v in net.order if v in self.names] for net in (self.first, self.transition)
        ]
        for t in range(length):
            for i in orders[t > 0]:
                family = self._families[t > 0][i]
                given = tuple(states[:, t, v - V] if v >= V else states[:, t - 1, v] for v in family.scope[:-1])
                states[:, t, i] = drawn(rng, np.broadcast_to(family.table[given], (n, family.table.shape[-1])))
        return [self.columns(own) for own in states]

    # ---- inside -----------------------------------------------------------------------------------------

    def _stated(self, name: str) -> int | Sequence[str]:
        """Return the states of a variable as tables take them: names, or a number."""
        named = [x for x in self.states[name] if isinstance(x, str)]
        return named or len(self.states[name])

    def check_impossible(self, model: SliceModel, codes: IntArray) -> None:
        """Raise `SolveError` if observations [T, V] are possible although their sum was zero, by a search in logs."""
        _, (score,) = best_sequences(model, codes[None])
        if score > -np.inf:
            raise SolveError(
                "The probabilities of the states of a slice differ by more than a factor of 1e308, so the sums lost "
                "states that later observations need. Use smooth(.., solver='exact') or decode, which compute in logs."
            )

    def columns(self, states: IntArray) -> dict[str, list[Any]]:
        """Return numbers of states [T, V] as a mapping from variable to its states."""
        return {
            name: [self.states[name][x] for x in own] for name, own in zip(self.names, states.T.tolist(), strict=True)
        }

    def _sequence(self, states: IntArray, score: float) -> StateSequence:
        if score == -np.inf:
            return StateSequence({}, states[:0], score, Status.ZERO_PROBABILITY)
        return StateSequence(self.columns(states), states, score)

    def _sums(self, sequences: Sequences) -> Iterable[tuple[list[int], SliceSums]]:
        model = self.model(sequences)
        for numbers, codes in sequences.batches(max(1, int(_BATCH_STATES / model.num_states))):
            yield numbers, slice_sums(Observed(model, codes))

    def solves(self, model: SliceModel, solver: Any, options: dict[str, Any]) -> bool:
        """Return whether a solver answers instead of exact sums over slices."""
        if solver is None and model.num_states <= _MOST_STATES:
            if "do" in options:
                raise OptionError(
                    "An action happens in one slice. Ask the unrolled network: ef.solve(network.unroll(length), "
                    "do={'rain[2]': 'yes'}, evidence=..)."
                )
            if options:
                raise OptionError(f"{next(iter(options))}= is an option of a solver. Give solver= as well.")
            return False
        return True

    def how(self, solver: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of `ef.solve` for a solver that answers instead of exact sums."""
        return {"solver": "auto" if solver is None else solver, **options}

    def seen_in(self, sequences: Sequences) -> Iterator[list[dict[str, Any]]]:
        """Yield the evidence on each slice, states or weights, of each sequence."""
        for codes in sequences.codes:
            yield [
                {
                    name: self.states[name][x] if x < len(self.states[name]) else table[x]
                    for name, x, table in zip(self.names, row, sequences.tables, strict=True)
                    if x >= 0
                }
                for row in codes.tolist()
            ]

    def _solved(self, answer: Any, sequences: Sequences, solver: Any, options: dict[str, Any]) -> list[Any]:
        """Return the answers of a solver about sequences, one after the other."""
        return [answer(self, seen, self.how(solver, options)) for seen in self.seen_in(sequences)]

    def _distributions(
        self, sequences: Sequences, smooth: bool, solver: Any, options: dict[str, Any]
    ) -> list[Trajectory]:
        if self.solves(self.model(sequences), solver, options):
            return self._solved(smoothed if smooth else filtered, sequences, solver, options)
        found: list[Any] = [None] * len(sequences)
        for numbers, sums in self._sums(sequences):
            values: dict[str, FloatArray] = {n: np.empty((sums.N, sums.T, len(self.states[n]))) for n in self.names}
            for t0, *_ in sums.smoothed() if smooth else sums.filtered():
                for name, own in zip(self.names, slice_marginals(sums.observed, t0, sums.joints), strict=True):
                    values[name][:, t0 : t0 + own.shape[1]] = own
            for k, n in enumerate(numbers):
                kept = {name: v[k, : len(sequences.codes[n])] for name, v in values.items()}
                log_z = float(sums.log_z[k])
                if log_z == -np.inf:
                    self.check_impossible(sums.model, sequences.codes[n])
                status = Status.ZERO_PROBABILITY if log_z == -np.inf else Status.EXACT
                found[n] = Trajectory(kept, self.states, log_z, 0, status)
        return found


def _of_slice(name: Any, stated: Any) -> tuple[Any, Any]:
    """Return a variable and its table, as a user gave them, with `rain` for `rain[t]`."""
    parents, table = parents_and_table(name, stated)
    return name.removesuffix(_NOW), ([p.removesuffix(_NOW) for p in parents], table) if parents else stated
