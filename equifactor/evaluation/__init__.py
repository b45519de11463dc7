"""Comparing solvers on collections of models with known answers.

campaign.py     `evaluate`: skips finished runs, does the others and saves every row immediately
jobs.py         the runs to do, and the key under which a finished run is found again
contents.py     the hash that identifies a model and its evidence
worker.py       the process that solves one job after the other
worker_pool.py  the worker processes: their limits, crashes and restarts
shipped_jobs.py jobs that are sent to a worker of a cluster, with their files
references.py   the right answers and their origin
measures.py     the errors of an answer, in the measures of the UAI competitions
conditional_sums.py  the value of an answer to marginal MAP, computed again
kept_marginals.py  marginals as text that fits into a row
row_store.py    finished runs on disk, one JSON line each; CSV and JSON at the end
summary.py      one table per solver, with a row per family
provenance.py   the command, code and machine that produced the numbers
"""

from equifactor.evaluation.campaign import evaluate
from equifactor.evaluation.jobs import Job
from equifactor.evaluation.measures import measure

__all__ = ["Job", "evaluate", "measure"]
