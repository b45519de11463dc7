"""The front door: `fit(structure, data, method) -> Fitted`."""

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
from equifactor.factors.noisy_or import NoisyOr
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.parents import find_families
from equifactor.graph.reading.inputs import as_list, factor_number
from equifactor.learning.fitting.data_table import DataTable, read_table
from equifactor.learning.fitting.fit_method import FitContext, FitMethod, Fitted

if TYPE_CHECKING:
    from equifactor.base.files import PathLike
    from equifactor.base.run_context import Progress
    from equifactor.graph.reading.inputs import Variable

METHODS = {  # name -> "module:Class", imported when it is asked for
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
    tied: Iterable[Iterable[int]] = (),
    fixed: Iterable[int] = (),
    seed: int = 0,
    time_limit: float | None = None,
    checkpoint: PathLike | None = None,
    progress: Progress | bool = False,
    **settings: Any,
) -> Fitted:
    """Potentials that explain data, for a graph whose structure is known.

    Args:
        structure: a graph or a model file. Its potentials are ignored, or the start where a method asks for one.
        data: rows of observed states: a pandas frame, an array [N, V] of state numbers, a list of dicts, a mapping from
            variable to column, what `sample` gives, or the path of a `.csv` file. Missing values are NaN, None or empty
            text (-1 in arrays of whole numbers); a variable without a column is hidden. Text is the name of a state, a
            whole number counts from 0; what could mean two things, and states that the structure does not have, are
            errors.
        method: "counts" or "em" for Bayesian networks; "likelihood", "pseudo-likelihood" or "max-margin" for all
            graphs; "auto" takes counts for a network with complete data, em for one without, else likelihood.
        hidden: the variables that are meant to have no values; with it, any other one without a column is an error.
        validation: a share of the rows (0.1) to hold out, or data of their own; its likelihood is reported, and stops
            methods that iterate before they fit noise.
        tied: groups of factors, by number, that share one table.
        fixed: factors, by number, that stay as they are.
        seed: of random starts and of the split.
        time_limit: seconds; then, or on Ctrl-C, the best so far comes back with a status that says so.
        checkpoint: a file in which the progress of methods that iterate is kept; where it exists the run goes on.
        progress: True for a bar on stderr, or a callable `(done, total, note)`.
        **settings: of the method, such as `prior=10`; docs/fit.md lists them.

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
    table = read_table(graph, data, hidden=hidden)
    rows, held_out = _split(graph, table, validation, seed)
    frozen = frozenset(factor_number(a, graph.num_factors) for a in _listed(fixed, "fixed"))
    wanted = parse_method(
        method,
        settings,
        base=FitMethod,
        find=lambda name: method_class(_choose(graph, rows, frozen) if name == "auto" else name),
        what="method of fitting",
    )
    with clock.catch_interrupt(), bar(progress, f"fit by {wanted.name}", time_limit) as report:
        context = FitContext(
            clock=clock, seed=int(seed), validation=held_out, tied=_ties(graph, tied, frozen), fixed=frozen,
            checkpoint=checkpoint, progress=report,
        )  # fmt: skip
        found = wanted.fit(graph, rows, context)
    message = " ".join(filter(None, (found.message, _about_hidden(graph, table) if hidden is None else "")))
    return dataclasses.replace(
        found, method=str(wanted), message=message, num_rows=float(rows.weights.sum()), seconds=clock.seconds
    )


def method_class(name: str) -> type[FitMethod]:
    """Return the class of a method in `METHODS`."""
    if name not in METHODS:
        raise OptionError(f"there is no method of fitting {name!r}; {choices(name, ['auto', *METHODS])}")
    module, _, cls = METHODS[name].partition(":")
    found: type[FitMethod] = getattr(import_module(f"equifactor.learning.fitting.{module}"), cls)
    return found


def _choose(graph: FactorGraph, table: DataTable, fixed: frozenset[int]) -> str:
    if find_families(graph) is None:
        return "likelihood"
    kinds = graph.structure.kinds
    noisy_ors = set() if kinds is None else set(np.flatnonzero(kinds.kind == NoisyOr.number).tolist())
    return "counts" if table.is_complete and noisy_ors <= fixed else "em"


def _read_structure(structure: FactorGraph | PathLike) -> FactorGraph:
    if not isinstance(structure, FactorGraph):
        from equifactor.formats import read_graph

        if not isinstance(structure, str) and not hasattr(structure, "__fspath__"):
            raise ModelError(f"the structure is a FactorGraph or the path of a model file, found {brief(structure)}")
        structure = read_graph(structure)
    if structure.observed is not None:
        raise ModelError("the structure has evidence; fit the graph as it was before, and put the values into the data")
    return structure


def _split(graph: FactorGraph, table: DataTable, validation: object, seed: int) -> tuple[DataTable, DataTable | None]:
    """The rows to fit and those held out."""
    if validation is None:
        return table, None
    if isinstance(validation, Real) and not isinstance(validation, bool):
        share = float(validation)
        held = round(share * table.num_rows) if 0.0 < share < 1.0 else 0
        if not 0 < held < table.num_rows:
            raise OptionError(
                f"validation is the share of the {table.num_rows} rows to hold out, such as 0.1, of which at least one "
                f"row must stay on either side; found {share:g}"
            )
        order = np.random.default_rng([int(seed), 1]).permutation(table.num_rows)
        return table.take(np.sort(order[held:])), table.take(np.sort(order[:held]))
    return table, read_table(graph, validation)


def _listed(values: object, what: str) -> list[Any]:
    found = as_list(values)
    if found is None:
        raise OptionError(f"{what} is a list of factor numbers, found {brief(values)}")
    return found


def _ties(graph: FactorGraph, tied: object, fixed: frozenset[int]) -> tuple[tuple[int, ...], ...]:
    """Groups of factors that share one table, checked: equal shapes, tables all, and each factor once."""
    groups: list[tuple[int, ...]] = []
    seen: set[int] = set()
    s = graph.structure
    for group in _listed(tied, "tied"):
        own = tuple(factor_number(a, graph.num_factors) for a in _listed(group, "a group of tied factors"))
        for a in own:
            if a in seen:
                raise OptionError(f"factor {a} is tied twice; give each factor in one group")
            seen.add(a)
            if a in fixed:
                raise OptionError(f"factor {a} is tied and fixed; it can be one of both")
            if s.shape(a) != s.shape(own[0]):
                raise OptionError(
                    f"tied factors share one table, and factor {a} has shape {s.shape(a)} where factor {own[0]} has "
                    f"{s.shape(own[0])}"
                )
            if s.kinds is not None and s.kinds.kind[a]:
                raise OptionError(f"tied factors share one table, and factor {a} is none")
        if len(own) > 1:
            groups.append(own)
    return tuple(groups)


def _about_hidden(graph: FactorGraph, table: DataTable) -> str:
    names = [graph.structure.variable_name(i) for i in np.flatnonzero(table.hidden).tolist()]
    if not names:
        return ""
    shown = ", ".join(names[:5]) + (", .." if len(names) > 5 else "")
    return f"{shown} {'has' if len(names) == 1 else 'have'} no values and {'is' if len(names) == 1 else 'are'} hidden."
