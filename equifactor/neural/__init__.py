"""Learned inference: message-passing networks on compiled factor graphs, CPU and GPU, any batch of graphs.

Symbols: S' edge states of the factors of two variables and more, E' their edges, X variable states, H channels;
old, new = m_prev and m~ of the paper, both factor-to-variable; msg_vf = m_{i->a}; h, u, q hidden, per edge state.

Names are loaded when they are first asked for: a list of solvers or the card of a model file needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equifactor.neural.bpnn import BPNN
    from equifactor.neural.card import ModelCard, read_card
    from equifactor.neural.differentiable import Beliefs, beliefs
    from equifactor.neural.fe_gnn import FEGNN
    from equifactor.neural.fe_nbp import FENBP
    from equifactor.neural.fe_net import FENet
    from equifactor.neural.fgnn import FGNN
    from equifactor.neural.files import load_model, save_model
    from equifactor.neural.ggnn import GGNN
    from equifactor.neural.nebp import NEBP
    from equifactor.neural.network import Config, Network, State, build, network_kinds

__all__ = [
    "BPNN",
    "FEGNN",
    "FENBP",
    "FGNN",
    "GGNN",
    "NEBP",
    "Beliefs",
    "Config",
    "FENet",
    "ModelCard",
    "Network",
    "State",
    "beliefs",
    "build",
    "load_model",
    "network_kinds",
    "read_card",
    "save_model",
]

_HOME = {
    "BPNN": "bpnn",
    "Beliefs": "differentiable",
    "FEGNN": "fe_gnn",
    "FENBP": "fe_nbp",
    "FENet": "fe_net",
    "FGNN": "fgnn",
    "GGNN": "ggnn",
    "ModelCard": "card",
    "NEBP": "nebp",
    "beliefs": "differentiable",
    "load_model": "files",
    "read_card": "card",
    "save_model": "files",
}  # the others live in network


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'equifactor.neural' has no attribute {name!r}")
    return getattr(importlib.import_module(f"equifactor.neural.{_HOME.get(name, 'network')}"), name)
