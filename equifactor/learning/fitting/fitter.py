"""The function `fit(structure, data, method) -> Fitted`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from importlib import import_module
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from equifactor.base.clock import Clock
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.options import choices, parse_method
from equifactor.base.progress import bar
from equifactor.base.run_context import check_run
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.parents import find_families
from equifactor.graph.reading.inputs import as_list, factor_number
from equifactor.learning.fitting.data_rows import DataRows, read_data
from equifactor.learning.fitting.fit_method import FitContext, FitMethod, Fitted
from equifactor.learning.fitting.learned_kinds import of_learned_kinds

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.base.run_context import Progress
    from equifactor.graph.reading.inputs import Variable

METHODS = {  # The module and the class of each method, which are imported on first use.
    "counts": "counts:CountsFit",
    "em": "expectation_maximisation:ExpectationMaximisation",
    "likelihood": "likelihood:LikelihoodFit",
    "max-margin": "max_margin:MaxMarginFit",
    "pseudo-likelihood": "pseudo_likelihood:PseudoLikelihoodFit",
}


def fit(
    structure: FactorGraph | PathLike,
    data: object,
    method: str | FitMethod = "auto",
    *,
    hidden: Iterable[Variable] | None = None,
    validation: object = None,
    tied: Iterable[Iterable[int]] | None = None,
    fixed: Iterable[int] = (),
    seed: int = 0,
    time_limit: float | None = None,
    checkpoint: PathLike | None = None,
    progress: Progress | bool = False,
    **settings: Any,
) -> Fitted:
    """Learn potentials that explain data, for a graph whose structure is known.

    Args:
        structure: a graph or a model file. Its potentials are ignored, unless the method starts from them.
        data: rows of observed states. A pandas frame, an array [N, V] of state numbers, a list of dicts, a mapping from
            variable to column, the result of `sample`, or the path of a `.csv` file. Missing values are NaN, None or
            empty text (-1 in arrays of whole numbers). A variable without a column is hidden. Text is the name of a
            state, and a whole number counts states from 0. Ambiguous values and unknown states are errors.
        method: "counts" or "em" for Bayesian networks; "likelihood", "pseudo-likelihood" or "max-margin" for all
            graphs. "auto" takes likelihood for a graph that is not a Bayesian network. For a network it takes em if
            values are missing or a structured factor can be learned, and otherwise counts. Settings may follow in
            brackets, as in "em(restarts=3)".
        hidden: the variables that have no values on purpose. If given, any other variable without a column is an error.
        validation: a share of the rows (0.1) to hold out, or separate data. The result reports their likelihood, or
            for max-margin the share of wrong labels. All iterative methods but max-margin stop when the likelihood no
            longer rises.
        tied: groups of factors, by number, that share one table. By default those that a plate of a network repeats.
        fixed: factors, by number, that are not learned.
        seed: the seed of random starts and of the split.
        time_limit: in seconds. At the limit, or on Ctrl-C, the best model so far is returned with a status.
        checkpoint: a file for the progress of methods that iterate. If it exists, the run continues from it.
        progress: True for a bar on stderr, or a callable `(done, total, note)`.
        **settings: further settings of the method, such as `prior=10`; `equifactor solvers em` lists them.

    Examples:
        >>> import equifactor as ef
        >>> lawn = ef.FactorGraph({"rain": ["no", "yes"], "grass": ["dry", "wet"]}, [
        ...     (["rain"], [1, 1]), (["rain", "grass"], [[1, 1], [1, 1]])])
        >>> rows = [{"rain": "no", "grass": "dry"}] * 6 + [{"rain": "yes", "grass": "wet"}] * 2
        >>> fitted = ef.fit(lawn, rows, prior=0)
        >>> ef.solve(fitted.graph).marginals["rain"]
        array([0.75, 0.25])
    """
    graph = _read_structure(structure)
    check_run(time_limit, seed, progress)
    clock = Clock(time_limit)
    whole = read_data(graph, data, hidden=hidden)
    rows, held_out = _split(graph, whole, validation, seed)
    frozen = frozenset(factor_number(a, graph.num_factors) for a in _listed(fixed, "fixed"))
    wanted = parse_method(
        method,
        settings,
        base=FitMethod,  # type: ignore[type-abstract]
        find=lambda name: method_class(_choose(graph, rows, frozen) if name == "auto" else name),
        what="method of fitting",
    )
    with bar(progress, f"fit by {wanted.name}", time_limit) as report, clock.govern():
        context = FitContext(
            clock=clock, seed=int(seed), validation=held_out, tied=_ties(graph, tied, frozen), fixed=frozen,
            checkpoint=checkpoint, progress=report,
        )  # fmt: skip
        found = wanted.fit(graph, rows, context)
    message = " ".join(filter(None, (found.message, _about_hidden(graph, whole) if hidden is None else "")))
    if type(graph) is not FactorGraph:  # A `BayesianNetwork` stays one.
        found = dataclasses.replace(found, graph=graph.with_potentials(found.graph.log_phi, log=True))
    return dataclasses.replace(
        found, method=str(wanted), message=message, num_rows=float(rows.weights.sum()), seconds=clock.seconds
    )


def method_class(name: str) -> type[FitMethod]:
    """Return the class of a method in `METHODS`."""
    if name not in METHODS:
        raise OptionError(f"There is no method of fitting {name!r}; {choices(name, ['auto', *METHODS])}.")
    module, _, cls = METHODS[name].partition(":")
    found: type[FitMethod] = getattr(import_module(f"equifactor.learning.fitting.{module}"), cls)
    return found


def _choose(graph: FactorGraph, data: DataRows, fixed: frozenset[int]) -> str:
    if find_families(graph) is None:
        return "likelihood"
    needs_em = set(np.flatnonzero(of_learned_kinds(graph)).tolist()) - fixed
    return "counts" if data.is_complete and not needs_em else "em"


def _read_structure(structure: FactorGraph | PathLike) -> FactorGraph:
    if not isinstance(structure, FactorGraph):
        from equifactor.formats import read_graph

        if not isinstance(structure, str) and not hasattr(structure, "__fspath__"):
            raise ModelError(
                f"The structure must be a FactorGraph or the path of a model file, found {brief(structure)}."
            )
        structure = read_graph(structure)
    if structure.observed is not None:
        raise ModelError(
            "The structure has evidence. Fit the graph without evidence, and put the values into the data."
        )
    return structure


def _split(graph: FactorGraph, data: DataRows, validation: object, seed: int) -> tuple[DataRows, DataRows | None]:
    """Return the rows to fit and the rows held out."""
    if validation is None:
        return data, None
    if isinstance(validation, Real) and not isinstance(validation, bool):
        share = float(validation)
        held = round(share * data.num_rows) if 0.0 < share < 1.0 else 0
        if not 0 < held < data.num_rows:
            raise OptionError(
                f"validation must be the share of the {data.num_rows} rows to hold out, such as 0.1, with at least one "
                f"row on either side, found {share:g}."
            )
        order = np.random.default_rng([int(seed), 1]).permutation(data.num_rows)
        return data.take(np.sort(order[held:])), data.take(np.sort(order[:held]))
    return data, read_data(graph, validation)


def _listed(values: object, what: str) -> list[Any]:
    found = as_list(values)
    if found is None:
        raise OptionError(f"{what} must be a list of factor numbers, found {brief(values)}.")
    return found


def _ties(graph: FactorGraph, tied: object, fixed: frozenset[int]) -> tuple[tuple[int, ...], ...]:
    """Return the groups of factors that share one table, after checking shapes, kinds and repetitions."""
    groups: list[tuple[int, ...]] = []
    seen: set[int] = set()
    s = graph.structure
    if tied is None:
        tied = [group for group in getattr(graph, "tied", ()) if not {*group} <= fixed]
    for group in _listed(tied, "tied"):
        own = tuple(factor_number(a, graph.num_factors) for a in _listed(group, "a group of tied factors"))
        for a in own:
            if a in seen:
                raise OptionError(f"Factor {a} is tied twice. Each factor can be in one group only.")
            seen.add(a)
            if a in fixed:
                raise OptionError(f"Factor {a} is both tied and fixed. A factor can be tied or fixed, not both.")
            if s.shape(a) != s.shape(own[0]):
                raise OptionError(
                    f"Tied factors share one table, but factor {a} has shape {s.shape(a)} and factor {own[0]} has "
                    f"shape {s.shape(own[0])}."
                )
            if s.kinds is not None and s.kinds.kind[a]:
                raise OptionError(
                    f"Tied factors share one table, but factor {a} is a structured factor and has no table."
                )
        if len(own) > 1:
            groups.append(own)
    return tuple(groups)


def _about_hidden(graph: FactorGraph, data: DataRows) -> str:
    names = [graph.structure.variable_name(i) for i in np.flatnonzero(data.hidden).tolist()]
    if not names:
        return ""
    shown = ", ".join(names[:5]) + (", .." if len(names) > 5 else "")
    return f"{shown} {'has' if len(names) == 1 else 'have'} no values and {'is' if len(names) == 1 else 'are'} hidden."
