"""Solvers compared on collections of models with known answers.

campaign.py     `evaluate`: skips what is finished, runs the rest, keeps every row at once
jobs.py         what is to be run, and the key under which a finished run is found again
contents.py     what a model is known by: the hash of its files
worker.py       the process that solves one job after the other
worker_pool.py  the processes: their limits, crashes and restarts
shipping.py     a job on its way to a worker of a cluster, with its files
references.py   the right answers, and where they come from
measures.py     how wrong an answer is, in the measures of the UAI competitions
kept_marginals.py  marginals as a text that a row can hold
row_store.py    finished runs on disk, one JSON line each; CSV and JSON at the end
summary.py      one table per solver, with a row per family
provenance.py   what produced the numbers
"""

from equifactor.evaluation.campaign import evaluate
from equifactor.evaluation.jobs import Job
from equifactor.evaluation.measures import measure

__all__ = ["Job", "evaluate", "measure"]
