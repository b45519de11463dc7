"""The settings of a kind of network, and a check of graphs, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from equifactor.base.errors import ModelError
from equifactor.base.options import check_options, option

if TYPE_CHECKING:
    from equifactor.graph import FlatGraph
    from equifactor.solving.solver import Symmetry


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Settings of a kind of network, which are stored in the model file; subclasses add theirs by `option`."""

    name: ClassVar[str] = "network"  # The kind of network, for error messages. Registering the solver sets it.

    steps: int = option(10, "message-passing steps T it is trained for", low=1)

    def __post_init__(self) -> None:
        check_options(self)

    def more_symmetries(self) -> frozenset[Symmetry]:
        """Return the symmetries that hold with these settings in addition to those the solver declares."""
        return frozenset()


def check_cardinality(flat: FlatGraph[Any], kind: str, wanted: int) -> None:
    """Raise `ModelError` unless every variable of every graph has `wanted` states."""
    card = np.concatenate([graph.card[graph.free_vars] for graph in flat.graphs])
    if (card == wanted).all():
        return
    first = int(np.argmax(card != wanted))
    other = int(card[first])
    graph = flat.graphs[int(np.searchsorted(flat.graph_ptr["variables"], first, side="right")) - 1]
    raise ModelError(
        f"{kind} was made for variables of {wanted} states, and {graph.name or 'a graph'} has a variable of {other}. "
        + (
            f"Train it with card={other} if all your variables have {other} states, or use"
            if (card == other).all()
            else "Use"
        )
        + " fe-nbp or fe-net, which take any number of states."
    )
