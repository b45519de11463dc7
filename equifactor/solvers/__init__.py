"""The solvers, one folder per family; the table in `equifactor.solving.registry` names them all.

Numeric constants that are choices say what `python -m benchmarks.constants` measured when it halved and doubled them,
such as "Halved or doubled: error within 5 %". Time limits of these runs are 0.1 to 0.5 s of CPU time. A comment that
gives a number of graphs or models comes from one comparison by hand with the constant changed in the source: of error
bars with `benchmarks.coverage`, of CPU time with `benchmarks.native_networks`. No command repeats these comparisons.
"""

from equifactor.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__, __file__, replaced={"EvidenceRows": "equifactor.solve(graph, evidence=[..], targets=[..])"}
)
