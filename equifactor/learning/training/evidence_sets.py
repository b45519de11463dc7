"""Training data for one model that is asked many questions: the model given many different sets of evidence."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from equifactor.base.argument_types import is_real
from equifactor.base.errors import ModelError, OptionError, brief
from equifactor.base.status import Task
from equifactor.graph.factor_graph import FactorGraph
from equifactor.graph.reading.inputs import as_list
from equifactor.questions.sample import sample
from equifactor.questions.solve import solve

if TYPE_CHECKING:
    from equifactor.base.typing import IntArray
    from equifactor.solvers.learned.network import Network

BP = "bp(damping=0.5, iterations=200)"  # The solver that a network trained on one model is compared with.
# The number of further evidence sets on which the network is compared with BP, relative to the number for training.
_TEST_SHARE = 0.25
_MOST_TEST = 50  # The largest number of further evidence sets. Chosen by hand.
_MOST = 2**31  # The largest number of evidence sets: more do not fit in memory.
_FEWEST = 5  # The smallest number of different evidence sets that are split into training and validation.


@dataclass(frozen=True, eq=False)
class EvidenceSets:
    """The graphs of one model given different evidence, as data for `train`.

    States of all variables are drawn from the model, exactly if an elimination plan fits. Each sample gives one set of
    evidence: the states of some variables in it. No set occurs twice, so a validation set is never a training set.

    ```python
    ef.train("fe-net", ef.learned.EvidenceSets("m.uai", 200, observe=0.3), "MAR", "mine.safetensors", start="shipped")
    ```

    Attributes:
        model: a model file or a graph; variables that it observes stay observed.
        count: the number of evidence sets for training and validation.
        observe: the share of the free variables that each set observes, drawn for each set; or the variables to
            observe, by name or number.
    """

    model: str | Path | FactorGraph
    count: int = 200
    observe: float | Iterable[str | int] = 0.3

    def __post_init__(self) -> None:
        count = self.count
        if not isinstance(count, int) or isinstance(count, bool) or not _FEWEST <= count <= _MOST:
            raise OptionError(f"The number of evidence sets must be {_FEWEST} to {_MOST}, found {brief(count)}.")
        variables = self.observe if isinstance(self.observe, str) else as_list(self.observe)
        if variables is None and not (is_real(self.observe) and 0 < self.observe < 1):
            raise OptionError(
                f"observe must be a share above 0 and below 1, or a list of variables; found {brief(self.observe)}."
            )
        object.__setattr__(self, "observe", float(self.observe) if variables is None else variables)  # type: ignore[arg-type]

    @functools.cached_property
    def graph(self) -> FactorGraph:
        """The model, read from its file on first use."""
        if isinstance(self.model, FactorGraph):
            return self.model
        from equifactor.formats import read_graph

        return read_graph(self.model)

    def __str__(self) -> str:
        where = self.observe if isinstance(self.observe, (int, float)) else ", ".join(map(str, self._named))
        name = self.graph.name or (self.model if isinstance(self.model, (str, Path)) else "a model")
        return f"{self.count} evidence sets of {name}, observe {where}"

    @functools.cached_property
    def _named(self) -> list[str | int]:
        assert not isinstance(self.observe, (int, float))
        return [self.observe] if isinstance(self.observe, str) else list(self.observe)

    def graphs(self, seed: int) -> tuple[list[FactorGraph], list[FactorGraph]]:
        """Return the graphs for training and validation, and further graphs for a test, which has other evidence."""
        wanted = self.count + min(_MOST_TEST, max(1, round(_TEST_SHARE * self.count)))
        drawn = sample(self.graph, wanted, seed=seed)
        if len(drawn) < wanted:
            raise ModelError(
                f"{self}: {len(drawn)} of {wanted} samples of the model could be drawn. "
                f"{drawn.message or drawn.status.advice}"
            )
        rows = list(dict.fromkeys(row.tobytes() for row in self._evidence(drawn.states, seed)))
        if len(rows) < _FEWEST:
            raise OptionError(
                f"{self}: {wanted} samples have {len(rows)} different evidence sets, and at least {_FEWEST} are "
                "needed. Observe more variables, or solve each set exactly."
            )
        # If there are few different sets, four fifths of them are for training.
        learned = min(self.count, -(-4 * len(rows) // 5))
        given = [self.graph.condition(np.frombuffer(row, np.int64)) for row in rows]
        return given[:learned], given[learned:]

    def _evidence(self, states: IntArray, seed: int) -> IntArray:
        """Return [n, V] the observed states of each set, -1 where a variable is not observed."""
        free = self.graph.free_vars
        evidence = np.full(states.shape, -1, np.int64)
        if isinstance(self.observe, (int, float)):
            many = min(max(1, round(self.observe * len(free))), len(free) - 1)
            order = np.random.default_rng([seed, 78]).random((len(states), len(free))).argsort(axis=1)
            columns = free[order[:, :many]]
        else:
            named = [self.graph.variable(v) for v in self._named]
            for v in named:
                if v not in free:
                    raise OptionError(f"observe: the model already observes {self.graph.structure.variable_name(v)}.")
            many = len(set(named))
            columns = np.broadcast_to(np.array(named, np.int64), (len(states), len(named)))
        if not 0 < many < len(free):
            raise OptionError(
                f"{self}: the model has {len(free)} free variables, and {many} of them would be observed. At least one "
                "variable must be observed, and at least one must remain."
            )
        np.put_along_axis(evidence, columns, np.take_along_axis(states, columns, axis=1), axis=1)
        return evidence


def against_bp(network: Network, graphs: list[FactorGraph], task: Task) -> dict[str, float]:
    """Return the errors of a network and of BP on graphs, and the number of these graphs.

    The errors are the mean KL to the targets for MAR, and the mean UAI error for MAP, as in the validation. Graphs
    without a target are not counted.
    """
    import torch

    from equifactor.learning.training.batches import Dataset
    from equifactor.learning.training.data_sources import Source
    from equifactor.learning.training.losses import SMALLEST_SCORE, kl_per_graph
    from equifactor.learning.training.targets import free_values, with_targets
    from equifactor.learning.training.validate import measures

    found, targets, _ = with_targets(Source(graphs, [None] * len(graphs), "test", estimated=True), task)
    parameter = next(network.parameters())
    data = Dataset(found, targets, device=str(parameter.device), dtype=str(parameter.dtype).removeprefix("torch."))
    plans = data.plans(len(found))
    network.eval()
    name, own = next(iter(measures(network, [data.batch(p) for p in plans], task).items()))
    answers = [solve(graph, task.value, BP) for graph in found]
    errors: list[float] = []
    if task is Task.MAP:
        for answer, (best,) in zip(answers, targets, strict=True):
            score = answer.log_score if answer.answered else -np.inf
            errors.append(min(1.0, max(0.0, best - score) / max(abs(best), SMALLEST_SCORE)))
    else:
        for plan in plans:
            batch = data.batch(plan)
            values = [free_values(found[n], answers[n].marginals.values) for n in plan.indices]
            log_b = torch.tensor(np.concatenate(values), dtype=batch.target.dtype, device=batch.target.device).log()
            errors += kl_per_graph(batch.flat, log_b, batch.target).tolist()
    return {f"test {name}": own, f"test {name} of BP": float(np.mean(errors)), "test graphs": len(found)}
