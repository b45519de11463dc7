"""Learned inference: message-passing networks on compiled factor graphs, CPU and GPU, any batch of graphs.

Symbols: S' edge states of the factors of two variables and more, E' their edges, X variable states, H channels;
old, new = m_prev and m~ of the paper, both factor-to-variable; msg_vf = m_{i->a}; h, u, q hidden, per edge state.

Names are loaded when they are first asked for: a list of solvers or the card of a model file needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equifactor.solvers.learned.bp_layer import Beliefs, beliefs
    from equifactor.solvers.learned.bpnn import BPNN
    from equifactor.solvers.learned.fe_gnn import FEGNN
    from equifactor.solvers.learned.fe_nbp import FENBP
    from equifactor.solvers.learned.fe_net import FENet
    from equifactor.solvers.learned.fgnn import FGNN
    from equifactor.solvers.learned.ggnn import GGNN
    from equifactor.solvers.learned.model_card import ModelCard, read_card
    from equifactor.solvers.learned.model_files import load_model, save_model
    from equifactor.solvers.learned.nebp import NEBP
    from equifactor.solvers.learned.network import Network, NetworkConfig, NetworkState, build, network_kinds

__all__ = [
    "BPNN",
    "FEGNN",
    "FENBP",
    "FGNN",
    "GGNN",
    "NEBP",
    "Beliefs",
    "FENet",
    "ModelCard",
    "Network",
    "NetworkConfig",
    "NetworkState",
    "beliefs",
    "build",
    "load_model",
    "network_kinds",
    "read_card",
    "save_model",
]

_HOME = {
    "BPNN": "bpnn",
    "Beliefs": "bp_layer",
    "FEGNN": "fe_gnn",
    "FENBP": "fe_nbp",
    "FENet": "fe_net",
    "FGNN": "fgnn",
    "GGNN": "ggnn",
    "ModelCard": "model_card",
    "NEBP": "nebp",
    "beliefs": "bp_layer",
    "load_model": "model_files",
    "read_card": "model_card",
    "save_model": "model_files",
}  # the others live in network


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'equifactor.solvers.learned' has no attribute {name!r}")
    return getattr(importlib.import_module(f"equifactor.solvers.learned.{_HOME.get(name, 'network')}"), name)
