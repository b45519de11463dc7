"""Marginals and ln Z of graphs that share the time, if exact inference does not fit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from equifactor.base.budget import Refusal
from equifactor.base.clock import Clock, NotCompiledError
from equifactor.base.status import Status, Task
from equifactor.solvers.auto.by_search import is_solved, search_each
from equifactor.solvers.auto.possibility import has_hard_structure, with_possibility
from equifactor.solvers.auto.sum_ladder import LadderLimits, SumLadder, share_of_time
from equifactor.solvers.auto.sum_portfolio import first_answers, quick_answers, seconds_for_first
from equifactor.solvers.auto.table_forms import table_forms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from equifactor.factors.lowered_graph import LoweredGraph
    from equifactor.graph import FactorGraph
    from equifactor.solvers.auto.chooser import Auto
    from equifactor.solving.estimate import Estimate
    from equifactor.solving.solver import SolveContext

# The share of the time for a possible assignment of a formula or its refutation. Halved or doubled: error within 10 %.
_FIRST_SHARE = 0.3


def sums_in_turn(
    auto: Auto,
    graphs: Sequence[FactorGraph],
    forms: Sequence[LoweredGraph | Refusal],
    task: Task,
    context: SolveContext,
) -> list[Estimate]:
    """Return marginals or ln Z of graphs that share the time.

    Models full of zeros are searched first. Then a run of BP gives every graph an answer. Sums over cutsets follow, a
    short run of single-variable sampling, more runs of BP and the network, and a ladder of solvers for each graph.

    Args:
        auto: the limits on time, memory and threads.
        graphs: the graphs.
        forms: each graph with dense tables alone, or why that is not possible.
        task: MAR or PR.
        context: the clock and the seed.
    """
    clock, count = context.clock, len(graphs)
    end = clock.seconds + (auto.seconds if clock.time_limit is None else clock.left)
    limits = LadderLimits(auto.memory_limit, auto.cores)
    searched = search_each(graphs, forms, task, context, end)
    answers = [found if is_solved(found) else None for found in searched]
    rest = [n for n in range(count) if answers[n] is None]
    left = Clock(max(0.0, end - clock.seconds), whole=clock)
    asked = [graphs[n] for n in rest]
    quick = dict(zip(rest, quick_answers(asked, task, replace(context, clock=left)) if rest else [], strict=True))
    ladders: dict[int, SumLadder] = {}
    for k, n in enumerate(rest):
        part = share_of_time(context, len(rest) - k, end)
        ladders[n] = SumLadder(graphs[n], forms[n], task, part, limits)
        answers[n] = ladders[n].by_cutset()
        if answers[n] is None and quick[n].estimate.status is not Status.ZERO_PROBABILITY:
            ladders[n].look()
    scores = [-math.inf] * count  # The log score of a possible assignment of each graph, if one was looked for.
    rest = [n for n in range(count) if answers[n] is None]
    for k, n in enumerate(rest):
        answers[n], scores[n] = _possible(auto, graphs[n], share_of_time(context, len(rest) - k, end))
    rest = [n for n in rest if answers[n] is None]
    asked = [graphs[n] for n in rest]
    first = Clock(seconds_for_first(asked, task, context, max(0.0, end - clock.seconds)), whole=clock)
    sampled = [k for k, n in enumerate(rest) if ladders[n].needs_no_network(first, quick[n])]
    own = [quick[n] for n in rest]
    found = first_answers(asked, own, task, replace(context, clock=first), sampled) if rest else []
    for k, (n, own) in enumerate(zip(rest, found, strict=True)):
        ladders[n].context = share_of_time(context, len(rest) - k, end)
        ladders[n].answers = ladders[n].worth_keeping(own) + ladders[n].answers
        ladders[n].searched = searched[n]
        estimate = own[0].estimate
        if estimate.status is not Status.ZERO_PROBABILITY:
            estimate = ladders[n].run()
        if estimate.status not in (Status.EXACT, Status.ZERO_PROBABILITY):
            estimate = with_possibility(estimate, graphs[n], scores[n], ladders[n].answers)
        answers[n] = estimate
        context.report(count - len(rest) + k + 1, count)
    return [answer for answer in answers if answer is not None]


def _possible(auto: Auto, graph: FactorGraph, context: SolveContext) -> tuple[Estimate | None, float]:
    """Return the proof that a formula has no solutions, if it is found, and the log score of a solution if not.

    Other graphs are not looked at: their sampler finds possible assignments by itself.
    """
    from equifactor.graph.possible_states import zeros_alone

    if context.clock.stopped or not has_hard_structure(graph):
        return None, -math.inf
    zeros, seconds = zeros_alone(graph), _FIRST_SHARE * context.clock.left
    try:
        form = table_forms([zeros], Task.MAP, context.clock)[0]
        found = auto.best_assignment(zeros, form, Refusal("a possible assignment is needed"), seconds, context)
    except NotCompiledError:
        return None, -math.inf
    if found.status is Status.ZERO_PROBABILITY:
        return replace(found, message=""), -math.inf
    return None, -math.inf if found.assignment is None else float(graph.log_score(found.assignment))
