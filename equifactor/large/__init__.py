"""Belief propagation on pairwise models with up to billions of edges, such as guilt by association.

V variables with K states, E edges, T tables that the factors of the edges share. A message is K - 1 log ratios
ln m(s)/m(0), stored as whole numbers of quanta. Log odds are ln P(1)/P(0), with more states ln P(s)/(1 - P(s)).

large_solve.py      `solve`: reads the model, runs the iterations, returns a `LargeResult`
large_files.py      edges, priors and beliefs in .npy and Parquet files and in arrays
message_scale.py    quanta, and the update of a message as a table of whole numbers
cpu_messages.py     messages in the memory of a CPU, with large_kernels.py
gpu_messages.py     messages in the memory of a GPU, with large_gpu_kernels.py
exchange.py         the processes that `torchrun` started; large_cluster.py: the same on a Dask cluster
checkpoints.py      checkpoints, from which a run continues
rmat.py             random graphs with heavy-tailed degrees
"""

from equifactor.large.large_solve import LargeResult, solve
from equifactor.large.rmat import rmat_edges

__all__ = ["LargeResult", "rmat_edges", "solve"]
