"""`equifactor info`: the contents of a model, and the cost of exact inference."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from equifactor.cli.exit_status import terminal_width
from equifactor.cli.model_reader import ModelReader
from equifactor.cli.shared_options import EvidencePaths, InputFormat, JsonLines, ModelPaths, Sample, example
from equifactor.show.text_tables import fitted, labelled

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.solvers.elimination.plan import Plan

EXAMPLE = example(
    "equifactor generate tree --num-vars 100 --card 2-5 -o tree.uai",
    "equifactor info tree.uai",
    "equifactor info tree.uai --variables",
)


def info(
    models: ModelPaths,
    evidence: EvidencePaths = None,
    as_json: JsonLines = False,
    format: InputFormat = None,
    sample: Sample = None,
    variables: Annotated[
        bool, typer.Option("--variables", help="List the variables and their states instead, by name or by number.")
    ] = False,
) -> None:
    """Describe models: variables, factors, cardinalities, arities, zeros, kinds, components, width and memory."""
    from equifactor.base.progress import bar

    graphs = ModelReader(models, evidence, format, sample)
    for n, (path, graph) in enumerate(graphs):
        if variables:
            print(_variables_as_json(path, graph) if as_json else _variables_as_text(path, graph, n > 0), flush=True)
            continue
        with bar(True, f"planning {path}"):
            text = _as_json(path, graph) if as_json else ("\n" if n else "") + _as_text(path, graph)
        print(text, flush=True)
    graphs.exit_if_failed()


def _variables_as_text(path: str, graph: FactorGraph, blank: bool) -> str:
    """Return a row for each variable. A state that is observed has an asterisk."""
    s, seen = graph.structure, graph.evidence
    rows = [
        (s.variable_name(i), ", ".join(f"{x}*" if seen.get(i) == k else str(x) for k, x in enumerate(s.states_of(i))))
        for i in range(s.num_vars)
    ]
    note = "\n* observed" if seen else ""
    table = fitted([("variable", "states"), *rows], terminal_width(), rule=True)
    return f"{chr(10) if blank else ''}{path}\n{table}{note}"


def _variables_as_json(path: str, graph: FactorGraph) -> str:
    s = graph.structure
    states = {s.variable_name(i): list(s.states_of(i)) for i in range(s.num_vars)}
    observed = {s.variable_name(i): s.states_of(i)[x] for i, x in graph.evidence.items()}
    return json.dumps({"model": path, "variables": states, "observed": observed}, allow_nan=False)


def _cost(graph: FactorGraph) -> Plan | str:
    """Return the plan of exact inference, or a sentence if factors are too large for dense tables."""
    from equifactor.base.errors import ModelError
    from equifactor.kernels.compile_costs import seconds_to_compile
    from equifactor.solvers.elimination.plan import plan

    try:
        return plan(graph, first=seconds_to_compile("elimination") > 0.0)
    except ModelError as error:
        return str(error)


def _as_text(path: str, graph: FactorGraph) -> str:
    from equifactor.graph.components import count_components
    from equifactor.show.graph_display import facts
    from equifactor.solvers.elimination.plan import format_bytes

    cost = _cost(graph)
    rows = [*facts(graph), ("components", f"{count_components(graph.structure, graph.observed):,}")]
    if isinstance(cost, str):
        return labelled(path, [*rows, ("exact", cost)], terminal_width())
    if cost.lowering:
        rows.append(("in tables for exact", cost.lowering))
    rows += [
        ("width estimate", f"{cost.width:,}"),
        ("largest exact table", f"2^{cost.log2_largest:.1f} entries"),
        ("memory for exact", format_bytes(cost.memory)),
    ]
    return labelled(path, rows, terminal_width())


def _as_json(path: str, graph: FactorGraph) -> str:
    from equifactor.graph.components import count_components
    from equifactor.show.graph_display import contents

    cost, s, held = _cost(graph), graph.structure, contents(graph)
    known = None if isinstance(cost, str) else cost
    row: dict[str, Any] = {
        "model": path,
        "variables": s.num_vars,
        "observed": len(graph.evidence),
        "factors": s.num_factors,
        "edges": s.num_edges,
        "kinds": held.kinds,
        "entries": held.entries,
        "cardinalities": _histogram(s.card),
        "arities": _histogram(s.arity),
        "zeros": held.zeros,
        "numbers_of_other_kinds": held.numbers,
        "components": count_components(s, graph.observed),
        "width": known and known.width,
        "log2_largest_table": known and round(known.log2_largest, 3),
        "exact_bytes": known and known.memory,
        "lowered_variables": known and known.num_auxiliary,
        "lowered_entries": known and known.num_lowered_entries,
    }
    return json.dumps(row, allow_nan=False)


def _histogram(values: np.ndarray) -> dict[str, int]:
    """Return how often each value occurs."""
    found, counts = np.unique(values, return_counts=True)
    return {str(v): n for v, n in zip(found.tolist(), counts.tolist(), strict=True)}
