"""`equifactor evaluate`: solvers scored on a folder of models with known answers."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from equifactor.base.errors import OptionError
from equifactor.base.options import choices
from equifactor.cli.completions import solver_specs, words
from equifactor.cli.exit_status import say, terminal_width
from equifactor.cli.shared_options import Cluster, Collections, Plugins, Seed, TaskName, example, names_in

if TYPE_CHECKING:
    from equifactor.base.status import Task
    from equifactor.data import Instance
    from equifactor.solving.solver import Progress

EXAMPLE = example(
    "equifactor generate ising --rows 6 --cols 6 --count 3 -o grids",
    'equifactor evaluate grids --task MAP --solver exact --solver "bp(damping=0.5)" --time-limit 5',
)


def evaluate(
    folder: Annotated[
        str | None,
        typer.Argument(
            metavar="[FOLDER]",
            help="Folder of models in any format, with an index.json for known answers; default $EQUIFACTOR_DATA.",
        ),
    ] = None,
    collection: Collections = None,
    task: TaskName = "MAR",
    solver: Annotated[
        list[str] | None,
        typer.Option(
            "--solver",
            "-s",
            metavar="SPEC",
            autocompletion=solver_specs,
            help="A solver, as for equifactor solve; give it several times to compare. Default auto.",
        ),
    ] = None,
    time_limit: Annotated[
        float, typer.Option(metavar="S", help="Seconds per model and solver; 0 for no limit.")
    ] = 20.0,
    jobs: Annotated[
        int, typer.Option(metavar="N", min=1, help="Processes at once; for fair times, at most one per core.")
    ] = 1,
    cluster: Cluster = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="train|test", autocompletion=words("train", "test"), help="Only this split of the collections."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only the first N models of each family.")
    ] = None,
    memory: Annotated[
        float, typer.Option(metavar="GIB", min=0, help="Memory per process on Linux; 0 for no limit.")
    ] = 8.0,
    seed: Seed = 0,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="DIR", help="Folder for the results; default results/NAME-TASK."),
    ] = None,
    reuse: Annotated[
        bool, typer.Option("--reuse", help="Also keep finished rows that another version of the code computed.")
    ] = False,
    reference: Annotated[
        str,
        typer.Option(
            metavar="file|SPEC", help="Source of right answers: files beside the models, or a solver such as exact."
        ),
    ] = "file",
    reference_limit: Annotated[
        float, typer.Option(metavar="S", help="Seconds per model for the solver of --reference; 0 for no limit.")
    ] = 600.0,
    plugin: Plugins = None,
) -> None:
    """Run solvers on models with known or computed answers and print one table per solver, with a row per family.

    Scores follow the UAI-2022 competition: 100 is right, 0 is not better than a trivial answer.
    Every finished run is saved in DIR/rows.jsonl, and the same command continues where it was stopped. DIR/results.json
    and DIR/results.csv contain all numbers.
    """
    from equifactor.data import collection as read_collection
    from equifactor.evaluation import evaluate as run
    from equifactor.evaluation.references import FILE
    from equifactor.evaluation.summary import tables
    from equifactor.questions.solve import parse_task

    wanted = parse_task(task, with_query=True)
    for name, seconds in (("time limit", time_limit), ("reference limit", reference_limit)):
        if not seconds >= 0:
            raise OptionError(f"The {name} must be at least 0 seconds, found {seconds}.")
    instances = _of_split(read_collection(folder, names_in(collection)), split)
    if reference == FILE:
        instances = _with_answers(instances, wanted)
    if limit is not None:
        taken: Counter[str] = Counter()
        instances = [i for i in instances if taken[i.family] < limit and not taken.update((i.family,))]
    target = output or f"results/{'-'.join(dict.fromkeys(i.collection for i in instances))}-{wanted}"
    with _watched(len(instances) * len(solver or [""])) as report:
        rows = run(
            instances, wanted, solver or ["auto"], target, time_limit=time_limit or None, seed=seed, processes=jobs,
            cluster=cluster, memory_limit=memory, reuse=reuse, reference=reference,
            reference_limit=reference_limit or None, progress=report,
        )  # fmt: skip
    print(tables(rows, wanted, terminal_width()), end="")
    say(f"all numbers are in {target}/results.json and {target}/results.csv")


def _of_split(instances: Sequence[Instance], split: str | None) -> list[Instance]:
    if split is None:
        return list(instances)
    splits = {i.split for i in instances if i.split}
    if split not in splits:
        raise OptionError(f"These models have no split {split!r}; {choices(split, sorted(splits))}")
    return [i for i in instances if i.split == split]


def _with_answers(instances: list[Instance], task: Task) -> list[Instance]:
    """Return the instances with a known answer, or all instances if no answer is known."""
    from equifactor.evaluation.references import has_reference

    known = [i for i in instances if has_reference(i, task)]
    if not known:
        say(f"no right answers for {task} are known here, so only times and statuses are shown (see --reference)")
        return instances
    if len(known) < len(instances):
        say(
            f"{len(instances) - len(known)} of {len(instances)} models have no known answer for {task} and are left out"
        )
    return known


@contextlib.contextmanager
def _watched(total: int) -> Iterator[Progress]:
    """Report progress by a bar on a terminal, and otherwise by a line per finished run."""
    from equifactor.base.progress import bar

    with bar(True, "evaluating") as report:
        if report is not None:
            report(0, total, "")
            yield report
            return

        def log(done: int, total: int | None, note: str) -> None:
            if note:
                print(f"{done}/{total} {note}", file=sys.stderr, flush=True)

        yield log
