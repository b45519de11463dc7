"""What a learned model is: a message-passing network that starts, steps and can be read at any time."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from equifactor.base.errors import ModelError, OptionError
from equifactor.base.options import check_options, choices, option
from equifactor.base.typing import Semiring
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
    """Where a network stands: its log messages [S2] and whatever else it carries from step to step."""

    wiring: Wiring
    msg_fv: Tensor
    hidden: tuple[Tensor, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Settings of a kind of network, which are stored in the model file; subclasses add theirs by `option`."""

    name: ClassVar[str] = "network"  # The kind of network, for messages; it is set when the solver is registered.

    steps: int = option(10, "message-passing steps T it is trained for", low=1)

    def __post_init__(self) -> None:
        check_options(self)

    def more_symmetries(self) -> frozenset[Symmetry]:
        """The symmetries that hold with these settings, beyond those its solver declares for any settings."""
        return frozenset()


class Network(nn.Module, ABC):
    """The base of all learned models. Weights are shared over the steps, so any number of steps can be run.

    What is known of a kind of network as a whole (its name, tasks and symmetries) is declared by its solver, a subclass
    of `NeuralSolver` in the same file.
    """

    config_class: ClassVar[type[NetworkConfig]] = NetworkConfig
    solver_class: ClassVar[type[NeuralSolver]]  # It is set when the solver is registered.
    # What the rows of each hidden tensor belong to, or None for a number that all graphs of a batch share; `nodes` are
    # the variables and, after them, the larger factors, those of two variables and more; `fixed` is what `start` lays
    # out and no step changes. Without it a batch of graphs cannot be divided, and runs until its last one has settled.
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
        """The relabellings that its answers follow for any weights."""
        return self.solver_class.symmetries | self.config.more_symmetries()

    @abstractmethod
    def start(self, wiring: Wiring) -> NetworkState:
        """The state before the first step."""

    @abstractmethod
    def step(self, state: NetworkState) -> NetworkState:
        """The state after one step of message passing."""

    def log_beliefs(self, state: NetworkState) -> Float[Tensor, " X"]:
        """Log beliefs of all variable states, not normalised; -inf only where a state is impossible."""
        return state.wiring.log_beliefs(state.msg_fv)

    def check(self, flat: Flat) -> None:
        """Raise `ModelError` with one sentence where the network cannot take the graphs."""

    def accept(self, flat: Flat) -> None:
        """Raise `ModelError` where the network cannot take the graphs, or takes tables only and they have others."""
        if not self.solver_class.any_kind:
            flat.require_tables(self.kind)
        self.check(flat)

    def begin(self, flat: Flat, semiring: Semiring, clock: Clock | None = None) -> NetworkState:
        """Check the graphs and start on them, as far as the clock allows."""
        self.accept(flat)
        return self.start(wire(flat, semiring, clock))

    def forward(
        self, flat: Flat, semiring: Semiring = "sum", steps: int | None = None, read_at: Collection[int] = ()
    ) -> list[Float[Tensor, " X"]]:
        """Log beliefs after each number of steps in `read_at`, and after the last one."""
        return self.unroll(self.begin(flat, semiring), steps, read_at)

    def unroll(
        self, state: NetworkState, steps: int | None = None, read_at: Collection[int] = ()
    ) -> list[Float[Tensor, " X"]]:
        """The same as `forward`, from a state."""
        total = self.config.steps if steps is None else steps
        answers = []
        for n in range(1, total + 1):
            state = self.step(state)
            if n in read_at and n < total:
                answers.append(self.log_beliefs(state))
        return [*answers, self.log_beliefs(state)]


# ---- kinds of networks ----------------------------------------------------------------------------------


def network_kinds() -> dict[str, type[Network]]:
    """The network of each learned solver, by name."""
    return {name: network for name in solver_names() if (network := find_network(name)) is not None}


def find_network(kind: str) -> type[Network] | None:
    """The network of a learned solver, None where there is no learned solver of this name."""
    return getattr(solver_class(kind), "network_class", None) if is_solver(kind) else None


def build(kind: str, settings: dict[str, Any] | None = None, *, seed: int | None = None) -> Network:
    """A network of a kind with its starting weights; the same seed gives the same weights."""
    cls = find_network(kind)
    if cls is None:
        raise OptionError(f"there is no model kind {kind!r}; {choices(kind, list(network_kinds()))}")
    known = [f.name for f in dataclasses.fields(cls.config_class)]
    for name in settings or {}:
        if name not in known:
            raise OptionError(f"{kind} has no setting {name!r}; {choices(name, known)}")
    config = cls.config_class(**(settings or {}))
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        return cls(config)


def check_cardinality(flat: Flat, kind: str, wanted: int) -> None:
    """Raise `ModelError` unless every variable of every graph has `wanted` states."""
    card = (flat.var_ptr[1:] - flat.var_ptr[:-1]).cpu()
    if bool((card == wanted).all()):
        return
    other = int(card[card != wanted][0])
    graph = flat.graphs[int(flat.graph_of_var.cpu()[card != wanted][0])]
    same = bool((card == other).all())
    raise ModelError(
        f"{kind} was made for variables of {wanted} states and {graph.name or 'a graph'} has one of {other}: "
        + (f"train it with card={other} if all your models have {other}, or " if same else "")
        + "use fe-nbp or fe-net, which take any cardinality"
    )
