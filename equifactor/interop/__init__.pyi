"""The public names of `equifactor.interop`."""

from equifactor.interop.networkx import from_networkx as from_networkx
from equifactor.interop.networkx import to_networkx as to_networkx
from equifactor.interop.pgmpy import from_pgmpy as from_pgmpy
from equifactor.interop.pgmpy import to_pgmpy as to_pgmpy
from equifactor.interop.pyagrum import from_pyagrum as from_pyagrum
from equifactor.interop.pyagrum import to_pyagrum as to_pyagrum
from equifactor.interop.pyg import to_pyg as to_pyg
