"""What a learned model is: a message-passing network that starts, steps and can be read at any time."""

from __future__ import annotations

import dataclasses
import importlib
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from equifactor.errors import ModelError, OptionError
from equifactor.registry import check_options, option
from equifactor.solvers.learned.wiring import Flat, Wiring, wire
from equifactor.typing import Semiring


class State(NamedTuple):
    """Where a network stands: log messages [S'] and whatever else it carries from step to step."""

    wiring: Wiring
    msg_fv: Tensor
    hidden: tuple[Tensor, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of a kind of network, stored in the model file; subclasses add theirs by `option`."""

    name: ClassVar[str] = "network"

    steps: int = option(10, "message-passing steps T it is trained for", low=1)

    def __post_init__(self) -> None:
        check_options(self)


class Network(nn.Module, ABC):
    """Base of all learned models. Weights are shared over the steps, so any number of steps can be run."""

    kind: ClassVar[str]
    config_class: ClassVar[type[Config]] = Config
    symmetries: ClassVar[frozenset[str]]
    estimates_log_z: ClassVar[bool] = True  # its messages are those of BP, improved: the Bethe formula applies to them

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    @abstractmethod
    def start(self, wiring: Wiring) -> State:
        """The state before the first step."""

    @abstractmethod
    def step(self, state: State) -> State:
        """One step of message passing."""

    def log_beliefs(self, state: State) -> Float[Tensor, " X"]:
        """Log beliefs of all variable states, not normalised; -inf only where a state is impossible."""
        return state.wiring.log_beliefs(state.msg_fv)

    def check(self, flat: Flat) -> None:
        """Raise `ModelError` with one sentence where the network cannot take the graphs."""

    def begin(self, flat: Flat, semiring: Semiring) -> State:
        """Check the graphs and start on them."""
        self.check(flat)
        return self.start(wire(flat, semiring))

    def forward(
        self, flat: Flat, semiring: Semiring = "sum", steps: int | None = None, read_at: Collection[int] = ()
    ) -> list[Float[Tensor, " X"]]:
        """Log beliefs after each number of steps in `read_at`, and after the last one."""
        return self.unroll(self.begin(flat, semiring), steps, read_at)

    def unroll(
        self, state: State, steps: int | None = None, read_at: Collection[int] = ()
    ) -> list[Float[Tensor, " X"]]:
        """The same from a state."""
        total = self.config.steps if steps is None else steps
        answers = []
        for n in range(1, total + 1):
            state = self.step(state)
            if n in read_at and n < total:
                answers.append(self.log_beliefs(state))
        return [*answers, self.log_beliefs(state)]


_MODULES = ("fe_nbp", "fe_gnn", "fe_net", "bpnn", "nebp", "ggnn", "fgnn")  # each registers its kind when it is imported
_KINDS: dict[str, type[Network]] = {}


def register_network(kind: str) -> Any:
    """Class decorator: make a kind of network known to `train`, to model files and to `network_kinds`."""

    def decorate(cls: type[Network]) -> type[Network]:
        cls.kind = kind
        cls.config_class.name = kind  # how messages about settings call it
        _KINDS[kind] = cls
        return cls

    return decorate


def network_kinds() -> dict[str, type[Network]]:
    """All kinds by name."""
    for module in _MODULES:
        importlib.import_module(f"equifactor.solvers.learned.{module}")
    return dict(sorted(_KINDS.items()))


def build(kind: str, settings: dict[str, Any] | None = None, *, seed: int | None = None) -> Network:
    """A network of a kind with its starting weights; the same seed gives the same weights."""
    kinds = network_kinds()
    if kind not in kinds:
        raise OptionError(f"there is no model kind {kind!r}; choose from: {', '.join(kinds)}")
    cls = kinds[kind]
    known = [f.name for f in dataclasses.fields(cls.config_class)]
    for name in settings or {}:
        if name not in known:
            raise OptionError(f"{kind} has no setting {name!r}; choose from: {', '.join(known)}")
    config = cls.config_class(**(settings or {}))
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        return cls(config)


def one_cardinality(flat: Flat, kind: str, wanted: int) -> None:
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
