"""`equifactor info`: what is in a model, and what exact inference would cost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from equifactor.cli.command_options import Evidence, InputFormat, Sample, example
from equifactor.cli.command_options import Models as ModelPaths
from equifactor.cli.exit_status import Exit
from equifactor.cli.model_inputs import Models

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.solvers.elimination.plan import Plan

EXAMPLE = example("equifactor generate tree --num-vars 100 --card 2-5 -o tree.uai", "equifactor info tree.uai")


def info(
    models: ModelPaths,
    evidence: Evidence = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line and model.")] = False,
    format: InputFormat = None,
    sample: Sample = None,
) -> None:
    """Describe models: variables, factors, cardinalities, arities, zeros, components, width and memory."""
    graphs = Models(models, evidence, format, sample)
    for n, (path, graph) in enumerate(graphs):
        print(_as_json(path, graph) if as_json else ("\n" if n else "") + _as_text(path, graph), flush=True)
    if graphs.failed:
        raise typer.Exit(Exit.BAD_INPUT)


def _as_text(path: str, graph: FactorGraph) -> str:
    from equifactor.graph.components import count_components
    from equifactor.graph.display import facts
    from equifactor.solvers.elimination.plan import format_bytes

    plan = _plan(graph)
    rows = [
        *facts(graph),
        ("components", f"{count_components(graph.structure, graph.observed):,}"),
        ("width estimate", f"{plan.width:,}"),
        ("largest exact table", f"2^{plan.log2_largest:.1f} entries"),
        ("memory for exact", format_bytes(plan.memory)),
    ]
    label_width = max(len(label) for label, _ in rows)
    return "\n".join([path, *(f"  {label:<{label_width}}  {value}" for label, value in rows)])


def _as_json(path: str, graph: FactorGraph) -> str:
    from equifactor.graph.components import count_components

    plan, s = _plan(graph), graph.structure
    row: dict[str, Any] = {
        "model": path,
        "variables": s.num_vars,
        "observed": len(graph.evidence),
        "factors": s.num_factors,
        "edges": s.num_edges,
        "entries": s.num_entries,
        "cardinalities": _histogram(s.card),
        "arities": _histogram(s.arity),
        "zeros": int(np.count_nonzero(np.isneginf(graph.log_phi))),
        "components": count_components(s, graph.observed),
        "width": plan.width,
        "log2_largest_table": round(plan.log2_largest, 3),
        "exact_bytes": plan.memory,
    }
    return json.dumps(row, allow_nan=False)


def _histogram(values: np.ndarray) -> dict[str, int]:
    """How often each value occurs."""
    found, counts = np.unique(values, return_counts=True)
    return {str(v): n for v, n in zip(found.tolist(), counts.tolist(), strict=True)}


def _plan(graph: FactorGraph) -> Plan:
    from equifactor.solvers.elimination.plan import plan

    return plan(graph)
