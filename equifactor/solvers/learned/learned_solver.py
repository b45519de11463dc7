"""Trained networks as solvers: which weights they load, how many steps they run, and what they answer."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from equifactor.base.budget import Budget, Seconds
from equifactor.base.errors import OptionError
from equifactor.base.options import option
from equifactor.base.status import Status, Task
from equifactor.base.torch_device import check_device, torch_batch_size
from equifactor.base.torch_threads import torch_threads
from equifactor.solvers.elimination.impossibility import zero_or_lost
from equifactor.solvers.learned.model_card import WEIGHTS, card_of_file
from equifactor.solvers.learned.network_config import NetworkConfig
from equifactor.solving.estimate import Estimate
from equifactor.solving.registry import solver_class
from equifactor.solving.solver import Ending, IterativeSolver, SolveContext

if TYPE_CHECKING:
    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.graph import FactorGraph, FlatGraph
    from equifactor.solvers.learned.native.native_run import NativeRun
    from equifactor.solvers.learned.network import Network
    from equifactor.solvers.learned.network_run import NetworkRun

    Run = NetworkRun | NativeRun

# Edges and table entries of the graphs that run together on a CPU. For larger graphs the calls of torch cost little,
# and means over one graph are cheaper than over several: two 10 x 10 grids in one batch take fe-nbp 1.4 times as long
# as one after the other.
_BATCH_SIZE = 2.0**10
# The same for the native engine, whose calls cost less. On 200 grids of 4 x 4, half takes 26 % more CPU; twice takes
# fe-net 8 % less and fe-nbp 45 % more.
_NATIVE_BATCH_SIZE = 2.0**13
# Reference seconds for an edge state, to begin a run and to answer: 3 s on a chain of 10^6 spins.
_START_STATE = 5e-7


class InTorch:
    """The network of a solver, as an attribute of its class that imports torch when it is asked for."""

    def __init__(self, place: str) -> None:
        self.place = place  # The module and the class, with a colon between them.

    def __get__(self, solver: object, owner: type[NeuralSolver]) -> type[Network]:
        try:
            return _at(self.place)
        except ModuleNotFoundError as error:
            from equifactor.base.optional_packages import explained

            raise explained(error, owner.name) from None


def _at(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


@dataclass(frozen=True, kw_only=True)
class NeuralSolver(IterativeSolver["Run"]):
    """A trained network, run for the steps it was trained for.

    It stops early, as `converged`, once neither a belief nor a message changes by more than `tolerance`. After its last
    step the status is `iteration-limit`, and the message reports how far that step moved the beliefs. A network is
    trained to give a good answer after T steps, not to reach a fixed point.

    A subclass names its network and declares what is true of it for any settings and weights: `tasks` (with PR where
    the Bethe formula applies to its messages), `symmetries` and `takes`. Networks with a `native_class` run on CPUs
    without torch, others and all GPUs use torch.
    """

    narrowing = 2.0  # Steps of a network cost more than its preparation.
    network_class: ClassVar[Any]  # type[Network], or `InTorch`
    config_class: ClassVar[type[NetworkConfig] | None] = None  # None: that of the network.
    starts_as_bp: ClassVar[bool] = False  # Whether the untrained network is BP, because its last layers are 0.
    native_class: ClassVar[str] = ""  # The place of the same network in NumPy, if there is one.

    iterations: int = option(0, "steps; 0: the number it was trained for, or 100 if a MAP run keeps the best", low=0)
    tolerance: float = option(1e-6, "stop when no belief and no message changes by more, in probability", low=0.0)
    weights: str | None = option(
        None, "model file (.safetensors), or further weights of the package by name: fe-net has wide and small"
    )
    untrained: bool = option(False, "use the starting weights instead of trained ones")
    engine: Literal["auto", "torch"] = option("auto", "auto: NumPy on a CPU if the network has it, otherwise torch")
    tighten: int = option(0, "MAP: passes of dual ascent from its messages, for a tighter upper bound", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None:
            if self.untrained:
                raise OptionError(f"{self.name}: weights and untrained exclude each other. Pass only one of them.")
            if "'" in self.weights and '"' in self.weights:
                raise OptionError(
                    f"{self.name}: the file name {self.weights} contains both kinds of quotes, so the solver cannot be "
                    "written as text. Rename the file."
                )
            # A missing or foreign file raises now, not at the first graph.
            card = card_of_file(weights_file(self.name, self.weights))
            if card.kind != self.name:
                raise OptionError(
                    f"{self.name}: {self.weights} holds a network of the kind {card.kind}. Pass the file itself as "
                    f"the solver: {self.weights}"
                )
            with contextlib.suppress(OptionError, TypeError, ValueError):  # `load_network` reports what does not fit.
                config = (self.config_class or self.network_class.config_class)(**card.settings)
                object.__setattr__(self, "symmetries", self.symmetries | config.more_symmetries())
        if self.tighten:  # Dual ascent goes through the variables in their order.
            object.__setattr__(self, "symmetries", self.symmetries - {"global"})

    @classmethod
    def take_name(cls, name: str) -> None:
        """Set the name of the solver, of its network and of the settings of the network."""
        super().take_name(name)
        if cls.config_class is None:
            cls.network_class.solver_class = cls
        config = cls.config_class or cls.network_class.config_class
        if config is not NetworkConfig:
            config.name = name

    @classmethod
    def missing(cls) -> str | None:
        """Return why the solver cannot run if the package has no weights for any of its tasks, and None otherwise."""
        shipped = any(shipped_weights(cls.name, task).is_file() for task in cls.tasks)
        return None if shipped else _not_shipped(cls.name, cls.tasks[0])

    def check_task(self, task: Task) -> None:
        """Raise `OptionError` if the weights are for another task, or missing."""
        super().check_task(task)
        if self.untrained:
            return
        path = self._weights_file(task)[0]
        if self.weights is None and not Path(path).is_file():
            raise OptionError(_not_shipped(self.name, task))
        trained = card_of_file(path).task
        if trained is not _trained_task(task):
            raise OptionError(
                f"{path} was trained for {trained} and cannot do {task}. Train a network for "
                f"{_trained_task(task)}, or use another solver."
            )

    def fingerprint(self) -> str:
        """Return a hash of the model file, or of those of the package, whose weights may change with a new version."""
        if self.untrained:
            return ""
        files = [shipped_weights(self.name, task) for task in (Task.MAR, Task.MAP)]
        files = [Path(weights_file(self.name, self.weights))] if self.weights else [f for f in files if f.is_file()]
        return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]

    def is_native(self, context: SolveContext) -> bool:
        """Return whether the network runs in NumPy."""
        return bool(self.native_class) and self.engine == "auto" and context.device == "cpu"

    def network(self, task: Task, context: SolveContext) -> Any:
        """Return the network with its weights: in NumPy, or in torch on the device and in the float type of the run."""
        if self.is_native(context):
            return self._native_network(task, context)
        import torch

        if self.untrained:
            from equifactor.solvers.learned.network import build

            network = build(self.name, self.untrained_settings(), seed=context.seed)
            return network.to(context.device, getattr(torch, context.dtype)).eval()
        return _loaded(*self._weights_file(task), context.device, context.dtype)

    def _native_network(self, task: Task, context: SolveContext) -> Any:
        assert self.config_class is not None
        cls = _at(self.native_class)
        if not self.untrained:
            return copy.copy(_loaded_natively(self.name, *self._weights_file(task)))
        config = self.config_class(**self.untrained_settings())
        draw = np.random.default_rng(context.seed).uniform
        bounds = {name: shape[-1] ** -0.5 for name, shape in cls.shapes(config).items()}
        # Answers of an untrained network that improves BP do not depend on its weights, because its last layers are 0.
        scale = 0.0 if self.starts_as_bp else 1.0
        weights = {
            name: scale * draw(-bounds[name], bounds[name], shape).astype(np.float32)
            for name, shape in cls.shapes(config).items()
        }
        return cls(config, weights)

    def _weights_file(self, task: Task) -> tuple[str, int]:
        """Return the model file, and when it was last changed."""
        given = self.weights and weights_file(self.name, self.weights)
        path = os.fspath(given or shipped_weights(self.name, task))
        try:
            return path, Path(path).stat().st_mtime_ns
        except OSError:
            return path, 0  # Reading the file will raise the error.

    def untrained_settings(self) -> dict[str, Any]:
        """Return the settings of the network where `untrained` is set."""
        return {}

    def run(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
        """Solve all graphs as one batch, or in halves if one batch does not fit into memory."""
        self.check_task(task)
        states = max((int(g.structure.card[g.structure.scope_vars].sum()) for g in graphs), default=0)
        entries = max((g.structure.num_entries for g in graphs), default=0)
        if not Budget(context.clock).ends_in_time(_START_STATE * states + Seconds.NETWORK_ENTRY * entries):
            said = "There is not enough time to start the network on a model of this size. Use bp."
            return [Estimate(status=context.clock.status or Status.TIME_LIMIT, message=said) for _ in graphs]
        if self.is_native(context):
            with np.errstate(all="ignore"):
                return self._with_steps(task, context)._run_in_memory(graphs, task, context)
        check_device(context.device, self.name)
        with torch_threads(context.clock, context.device, context.threads):
            return self._with_steps(task, context)._run_in_memory(graphs, task, context)

    def settle(
        self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext
    ) -> tuple[FlatGraph[np.ndarray], Run, Ending]:
        """Run the network for the number of steps it was trained for, or for `iterations` if that is set."""
        return IterativeSolver.settle(self._with_steps(task, context), graphs, task, context)

    def _with_steps(self, task: Task, context: SolveContext) -> Self:
        """Return the solver with `iterations` set to a number above 0."""
        return dataclasses.replace(self, iterations=self.iterations or self.network(task, context).config.steps)

    def batch_size(self, context: SolveContext) -> float:
        """Return the size at which calls cost little; a larger batch would only need more memory."""
        if self.is_native(context):
            return _NATIVE_BATCH_SIZE
        return torch_batch_size(context.device, _BATCH_SIZE)

    def _run_in_memory(self, graphs: Sequence[FactorGraph], task: Task, context: SolveContext) -> list[Estimate]:
        try:
            return [*super().run(graphs, task, context)]
        except (MemoryError, RuntimeError) as error:  # The error of torch is a RuntimeError.
            words = ("allocate memory", "out of memory")
            if not isinstance(error, MemoryError) and not any(w in str(error).lower() for w in words):
                raise
        if len(graphs) == 1:
            message = f"The network does not fit into the memory of {context.device} for a model of this size; use bp."
            return [Estimate(status=Status.TOO_LARGE, message=message)]
        half = len(graphs) // 2
        return self._run_in_memory(graphs[:half], task, context) + self._run_in_memory(graphs[half:], task, context)

    def init(self, flat: FlatGraph[np.ndarray], task: Task, context: SolveContext) -> Run:
        """Return the network before its first step."""
        network = self.network(task, context)
        if self.is_native(context):
            from equifactor.solvers.learned.native.native_run import NativeRun

            if not self.any_kind:
                flat.require_tables(self.name)
            return NativeRun(network, flat, task, context)
        from equifactor.solvers.learned.network_run import NetworkRun

        return NetworkRun(network, flat, task, context)

    def step(self, state: Run, count: int) -> FloatArray:
        """Run `count` steps of the network and return how far the last one moved each graph [G]."""
        change = state.advance(count, self.tolerance, self.iterations)
        if state.best is not None:
            state.best.note(self.states(state))
        return change

    def take(self, state: Run, graphs: IntArray) -> Any:
        """Return the state of some graphs, or None if the network cannot divide its batch."""
        part = state.take(graphs)
        return part if part is None or state.best is None else (part, state.best.take(graphs))

    def put(self, state: Run, graphs: IntArray, part: Any) -> None:
        """Set the state of some graphs."""
        if state.best is not None:
            part, best = part
            state.best.put(graphs, best)
        state.put(graphs, part)

    def states(self, state: Run) -> IntArray:
        """Return the states [V] of the MAP assignment, which are those of the highest belief."""
        return state.best_states()

    def finish(self, flat: FlatGraph[np.ndarray], state: Run, task: Task, ending: Ending) -> list[Estimate]:
        """Return beliefs and ln Z, or an assignment with its bound."""
        found: dict[str, Sequence[Any]] = {}
        if task is Task.MAP:
            bound = state.upper_bound(self.tighten).tolist()
            states = self.states(state) if state.best is None else state.best.states
            found = {"assignment": flat.assignments(states), "upper_bound": bound}
        else:
            found["marginals"] = flat.marginals(state.probabilities())
            if Task.PR in self.tasks:
                found["log_z"] = state.log_z().tolist()
        finite = state.finite()
        empty = ~state.possible() | np.isneginf(found.get("upper_bound", found.get("log_z", 0.0)))
        estimates = []
        endings = zip(ending.status, ending.iterations, ending.residual.tolist(), strict=True)
        for g, (status, steps, change) in enumerate(endings):
            if not finite[g] or status is Status.NON_FINITE:
                estimates.append(Estimate(status=Status.NON_FINITE, iterations=steps))
            elif empty[g]:
                estimates.append(zero_or_lost(flat.graphs[g], state.context.clock))
            else:
                answer = {name: values[g] for name, values in found.items()}
                estimates.append(
                    Estimate(
                        status=status, message=self._message(state, status, steps), iterations=steps,
                        stats={"change": change, "engine": state.engine}, **answer,
                    )
                )  # fmt: skip
        return estimates

    def _message(self, state: Run, status: Status, steps: int) -> str:
        trained = state.network.config.steps
        if status is Status.CONVERGED and steps > trained and getattr(state.network.config, "settle", 0.0) > 0.0:
            return (
                f"The network converged because its changes are scaled down after the {trained} steps it is made for."
            )
        if status is not Status.ITERATION_LIMIT:
            return ""
        if steps == trained:
            return f"The network ran the {steps} steps that it is made for."
        return f"The network has not converged after {steps} steps; it is made for {trained}."


def shipped_weights(kind: str, task: Task) -> Path:
    """Return the file of the package with weights for a task; PR uses those of MAR."""
    return WEIGHTS / f"{kind}-{_trained_task(task).lower()}.safetensors"


def weights_file(kind: str, given: str) -> str:
    """Return the model file that the option `weights` names: a path, or a name such as `small` in the package."""
    own = WEIGHTS / f"{kind}-{given}-{Task.MAR.lower()}.safetensors"
    return os.fspath(own) if given.isalpha() and len(given) < 100 and own.is_file() else given


def _trained_task(task: Task) -> Task:
    return Task.MAR if task is Task.PR else task


def _not_shipped(kind: str, task: Task) -> str:
    return (
        f"This package has no weights of {kind} for {_trained_task(task)}. Train some with equifactor train {kind} "
        f"--task {_trained_task(task)}, or use {kind}(untrained)."
    )


@functools.lru_cache(maxsize=16)
def _loaded(path: str, changed: int, device: str, dtype: str) -> Network:
    """Return the network of a file, read once per process, version of the file, device and float type."""
    import torch

    from equifactor.solvers.learned.model_files import load_network

    network = load_network(path, card_of_file(path))
    return network.to(device, getattr(torch, dtype)).eval().requires_grad_(False)


@functools.lru_cache(maxsize=16)
def _loaded_natively(name: str, path: str, changed: int) -> Any:
    """Return the network of a file in NumPy, read once per process and version of the file."""
    from equifactor.solvers.learned.model_weights import read_weights

    solver: Any = solver_class(name)
    network = _at(solver.native_class)
    return network(*read_weights(path, card_of_file(path), solver.config_class, network.shapes))
