"""Jobs: conversion to plain values, limits, and unknown solvers."""

from __future__ import annotations

import json

import pytest

from equifactor import OptionError
from equifactor.base.status import Task
from equifactor.data import Instance
from equifactor.evaluation.jobs import Job, make_jobs


def test_job_survives_the_way_to_the_worker(instances: list[Instance]) -> None:
    job = make_jobs(instances, "pr", ["bp(damping=0.50)"], 3.0, seed=4)[0]
    assert job.solver == "bp(damping=0.5)"
    copy = Job.from_dict(json.loads(json.dumps(job.to_dict())))
    assert copy == job
    assert copy.instance.log_z == job.instance.log_z


def test_wrong_solvers_are_refused_before_anything_runs(instances: list[Instance]) -> None:
    with pytest.raises(OptionError, match="There is no solver 'nope'"):
        make_jobs(instances, "PR", ["brute", "nope"], None)


@pytest.mark.parametrize("limit", [0.2, -1.0, float("nan")])
def test_a_memory_limit_below_what_a_process_needs_is_refused(instances: list[Instance], limit: float) -> None:
    with pytest.raises(OptionError, match=r"must be 0, for no limit, or at least 0\.3 GiB"):
        make_jobs(instances, "MAR", ["bp"], 1.0, memory_limit=limit)
    assert make_jobs(instances, "MAR", ["bp"], 1.0, memory_limit=0)


def test_overrun_allows_ten_percent_and_a_second(instances: list[Instance]) -> None:
    job = Job(instances[0], "bp", Task.PR, 10.0)
    assert job.overrun(11.9) == 0.0
    assert job.overrun(14.0) == pytest.approx(2.0)
    assert Job(instances[0], "bp", Task.PR, None).overrun(1e9) == 0.0
