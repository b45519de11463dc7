"""The base class of learned models: message-passing networks that start, step and give beliefs after any step."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from equifactor.base.argument_types import checks_types
from equifactor.base.errors import OptionError
from equifactor.base.options import check_names, choices
from equifactor.base.typing import Semiring
from equifactor.solvers.learned.network_config import NetworkConfig as NetworkConfig
from equifactor.solvers.learned.network_config import check_cardinality as check_cardinality
from equifactor.solvers.learned.wiring import Flat, Wiring, wire
from equifactor.solving.registry import is_solver, solver_class, solver_names

if TYPE_CHECKING:
    from equifactor.base.clock import Clock
    from equifactor.solvers.learned.learned_solver import NeuralSolver
    from equifactor.solving.solver import Symmetry


HiddenAxis = Literal[
    "edge states", "states", "variables", "factors", "edges", "entries", "unary", "larger factors", "nodes", "fixed"
]


class NetworkState(NamedTuple):
    """The state of a network: its log messages [S2] and the hidden tensors that it carries from step to step."""

    wiring: Wiring
    msg_fv: Tensor
    hidden: tuple[Tensor, ...] = ()


class Network(nn.Module, ABC):
    """The base class of all learned models. All steps share their weights, so any number of steps can be run.

    The solver of a kind of network, a subclass of `NeuralSolver` in the same file, declares its name, tasks and
    symmetries.
    """

    config_class: ClassVar[type[NetworkConfig]] = NetworkConfig
    solver_class: ClassVar[type[NeuralSolver]]  # Registering the solver sets it.
    # What the rows of each hidden tensor belong to, or None for a number that all graphs of a batch share. `larger
    # factors` have two or more variables. `nodes` are the variables followed by the larger factors. `fixed` tensors are
    # made by `start` and never change. Without `hidden_axes` a batch cannot be divided, and all its graphs run until
    # the last one has settled.
    hidden_axes: tuple[HiddenAxis | None, ...] | None = None

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config

    @property
    def kind(self) -> str:
        """The name of its solver."""
        return self.solver_class.name

    @property
    def symmetries(self) -> frozenset[Symmetry]:
        """The symmetries that hold for any weights."""
        return self.solver_class.symmetries | self.config.more_symmetries()

    @abstractmethod
    def start(self, wiring: Wiring) -> NetworkState:
        """Return the state before the first step."""

    @abstractmethod
    def step(self, state: NetworkState) -> NetworkState:
        """Return the state after one step of message passing."""

    def log_beliefs(self, state: NetworkState) -> Float[Tensor, " X"]:
        """Return log beliefs of all variable states, not normalised; -inf only for impossible states."""
        return state.wiring.log_beliefs(state.msg_fv)

    def check(self, flat: Flat) -> None:
        """Raise `ModelError` if the network cannot take the graphs."""

    def accept(self, flat: Flat) -> None:
        """Raise `ModelError` if the network cannot take the graphs, for example because of structured factors."""
        if not self.solver_class.any_kind:
            flat.require_tables(self.kind)
        self.check(flat)

    def begin(self, flat: Flat, semiring: Semiring, clock: Clock | None = None) -> NetworkState:
        """Check the graphs and return the state before the first step, prepared as far as the clock allows."""
        self.accept(flat)
        return self.start(wire(flat, semiring, clock))

    @checks_types("flat", "semiring", "steps", "read_at")
    def forward(
        self, flat: Flat, semiring: Semiring = "sum", steps: int | None = None, read_at: Collection[int] = ()
    ) -> list[Float[Tensor, " X"]]:
        """Return log beliefs after each number of steps in `read_at`, and after the last step."""
        return self.unroll(self.begin(flat, semiring), steps, read_at)

    def unroll(
        self, state: NetworkState, steps: int | None = None, read_at: Collection[int] = ()
    ) -> list[Float[Tensor, " X"]]:
        """Return the same as `forward`, starting from a state."""
        total = self.config.steps if steps is None else steps
        answers = []
        for n in range(1, total + 1):
            state = self.step(state)
            if n in read_at and n < total:
                answers.append(self.log_beliefs(state))
        return [*answers, self.log_beliefs(state)]


# ---- kinds of networks ----------------------------------------------------------------------------------


def network_kinds() -> dict[str, type[Network]]:
    """Return the network of each learned solver, by name."""
    return {name: network for name in solver_names() if (network := find_network(name)) is not None}


def find_network(kind: str) -> type[Network] | None:
    """Return the network of a learned solver, or None if no learned solver has this name."""
    return getattr(solver_class(kind), "network_class", None) if is_solver(kind) else None


def network_class(kind: str) -> type[Network]:
    """Return the class of a kind of network; raise `OptionError` for an unknown kind."""
    cls = find_network(kind)
    if cls is None:
        raise OptionError(f"There is no kind of network named {kind!r}; {choices(kind, list(network_kinds()))}")
    return cls


def setting_names(kind: str) -> list[str]:
    """Return the names of the settings of a kind of network."""
    return [f.name for f in dataclasses.fields(network_class(kind).config_class)]


def build(kind: str, settings: dict[str, Any] | None = None, *, seed: int | None = None) -> Network:
    """Return a network of a kind with its starting weights; the same seed gives the same weights."""
    cls = network_class(kind)
    check_names(kind, settings or {}, setting_names(kind))
    config = cls.config_class(**(settings or {}))
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        return cls(config)
