"""Learned inference: message-passing networks on compiled factor graphs, CPU and GPU, any batch of graphs.

Symbols: S' edge states of the factors of two variables and more, E' their edges, X variable states, H channels;
old, new = m_prev and m~ of the paper, both factor-to-variable; msg_vf = m_{i->a}; h, u, q hidden vectors per edge state.
"""

from equifactor.neural.fe_gnn import FEGNN
from equifactor.neural.fe_nbp import FENBP
from equifactor.neural.fe_net import FENet
from equifactor.neural.network import Config, Network, State, build, network_kinds

__all__ = ["FEGNN", "FENBP", "Config", "FENet", "Network", "State", "build", "network_kinds"]
