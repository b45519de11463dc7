"""`equifactor solve`: answers for models, in UAI format or as JSON lines."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equifactor.base.errors import EquifactorError, OptionError, SolveError
from equifactor.base.status import Task
from equifactor.cli.answer_writer import AnswerWriter
from equifactor.cli.completions import words
from equifactor.cli.exit_status import Exit, say
from equifactor.cli.model_reader import ModelReader
from equifactor.cli.shared_options import (
    Do,
    EvidencePaths,
    InputFormat,
    JsonLines,
    ModelPaths,
    Plugins,
    Sample,
    Seed,
    SolverSpec,
    Strict,
    TaskName,
    example,
)

if TYPE_CHECKING:
    from equifactor.graph import FactorGraph
    from equifactor.questions.joint import Joint
    from equifactor.questions.ranking import Ranking
    from equifactor.questions.result import Result
    from equifactor.solving.solver import Progress

EXAMPLE = example(
    "equifactor generate ising --rows 5 --cols 5 --seed 3 -o grid.uai",
    "equifactor solve grid.uai --task MAP",
    'equifactor solve grid.uai --solver "bp(damping=0.5)" --json -o grid.jsonl',
    "equifactor solve grid.uai -e 0=1 --joint 6,7,12",
    "equifactor solve grid.uai --task MAP --k 10",
    "equifactor solve grid.uai --task MMAP --query 3,7,11",
    "equifactor solve grid.uai --task PR --count",
    "equifactor generate network --num-vars 8 --seed 1 --observed 0 -o net.bif",
    "equifactor solve net.bif --do 3=1 --query 5",
)

_CHUNK_DIGITS = 4000
_CHUNK = 10**_CHUNK_DIGITS


def solve(
    models: ModelPaths,
    evidence: EvidencePaths = None,
    do: Do = None,
    task: TaskName = "MAR",
    solver: SolverSpec = "auto",
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="S", help="Seconds per model; then the best answer so far is written."),
    ] = None,
    seed: Seed = 0,
    device: Annotated[
        str, typer.Option(metavar="D", autocompletion=words("cpu", "cuda"), help="cpu, cuda or cuda:0.")
    ] = "cpu",
    dtype: Annotated[
        str,
        typer.Option(
            metavar="TYPE",
            autocompletion=words("float64", "float32"),
            help="float64 or float32, for solvers that run in torch.",
        ),
    ] = "float64",
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads of the CPU; the default is all free cores.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write here instead of to stdout.")
    ] = None,
    as_json: JsonLines = False,
    query: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Only these variables, such as BP,SAO2: a table of names, or a key of --json. With --task MMAP, the "
            "variables to maximise over: names, or a UAI .query file.",
        ),
    ] = None,
    joint: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="The joint distribution of these variables, such as BP,SAO2."),
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", metavar="N", min=1, help="With --task MAP: the N best assignments, as a table.")
    ] = None,
    apart: Annotated[
        int, typer.Option(metavar="D", min=1, help="With --k: each differs from all better ones in D variables.")
    ] = 1,
    count: Annotated[
        bool, typer.Option("--count", help="With --task PR: the number of possible assignments, with all digits.")
    ] = False,
    strict: Strict = False,
    format: InputFormat = None,
    sample: Sample = None,
    plugin: Plugins = None,
) -> None:
    """Solve models, one after the other: marginals, ln Z or the most probable assignment.

    Answers are in the format of the UAI competitions (PR in log10), or JSON lines with natural logarithms. On a
    terminal, a model with names is answered by a table of names, and PR by ln Z with its standard error and bounds.
    --query, --joint and --k always print a table of names.

    \b
    Exit status:
      0    done
      1    a model has no answer; under --strict also an unsolved status
      2    wrong usage
      3    unreadable or invalid input, unwritable output
      130  interrupted, after the best answer so far
    """
    from equifactor.base.clock import Clock
    from equifactor.cli.readable_answer import parse_query
    from equifactor.questions.solve import parse_task
    from equifactor.questions.solve import solve as solve_graph
    from equifactor.solvers import count_assignments

    options: dict[str, Any] = {
        "task": task, "solver": solver, "time_limit": time_limit, "seed": seed, "device": device, "dtype": dtype,
        "threads": threads,
    }  # fmt: skip
    wanted = parse_task(task, with_query=True)
    is_marginal = wanted is Task.MMAP
    if is_marginal and query is None:
        raise OptionError("--task MMAP needs --query, the variables to maximise over, such as --query BP,SAO2.")
    solve_graph([], **options, query=[] if is_marginal else None)  # checks the options before any file is read
    if joint is not None and wanted.maximises:
        raise OptionError(f"--joint needs probabilities, but --task {task} computes states. Use --task MAR.")
    if (k is not None or apart > 1) and wanted is not Task.MAP:
        raise OptionError(f"--k and --apart rank assignments, so they need --task MAP. Found --task {task}.")
    if count and wanted is not Task.PR:
        raise OptionError(f"--count gives the number of possible assignments, so it needs --task PR. Found {task}.")
    for name, given in (("--solver", solver != "auto"), ("--query", query is not None), ("--joint", joint is not None)):
        if count and given:
            raise OptionError(f"{name} has no meaning with --count, which counts exactly. Leave one of the two out.")
    graphs = ModelReader(models, evidence, format, sample, do, projected=count)
    unsolved = unanswered = False
    interrupts = Clock.interrupts
    read = [*models, *(evidence or []), query]
    with AnswerWriter(output, len(graphs), read) as answers, _bar_over(graphs, answers) as report:
        for n, (path, graph) in enumerate(graphs):
            try:
                asked = None if query is None else parse_query(query, graph, with_file=is_marginal)
                together = None if joint is None else parse_query(joint, graph)
                if count:
                    digits = _digits(count_assignments(graph, graphs.over, time_limit=time_limit))
                    answers.add(json.dumps({"model": path, "count": digits}) + "\n" if as_json else f"{digits}\n")
                    solved = answered = True
                elif k is not None:
                    ranking = _ranking(graph, k, apart, options, len(graphs) == 1)
                    solved, answered = _give_ranking(ranking, path, answers, asked, as_json)
                else:
                    over = asked if is_marginal else None
                    # JSON lists the marginals of all variables, and a joint may need them.
                    only = asked if wanted is Task.MAR and not (as_json or together) else None
                    result = solve_graph(graph, **options, query=over, targets=only, progress=len(graphs) == 1)
                    found = None if together is None else _joint(result, together, path)
                    if as_json:
                        answer = _as_json(result, path, asked, found)
                    else:
                        answer = "" if together and asked is None else _as_text(result, asked, answers)
                        answer += "" if found is None else "\n" * bool(answer) + f"{found.table()}\n"
                    _give(result, path, answers, answer, as_json)
                    solved = result.status.solved
                    answered = result.answered and (joint is None or found is not None)
            except OptionError:
                raise
            except (EquifactorError, MemoryError) as error:
                graphs.fail(path, error)
            else:
                unsolved |= not solved
                unanswered |= not answered
            if Clock.interrupts > interrupts:  # Checked for any status: the run may have finished despite Ctrl-C.
                if n + 1 + graphs.failed < len(graphs):
                    say(f"interrupted after {path}; the models after it were not solved")
                raise typer.Exit(Exit.INTERRUPTED)
            if report is not None:
                report(n + 1, len(graphs), path)
    graphs.exit_if_failed()
    if unanswered or (strict and unsolved):
        raise typer.Exit(Exit.UNSOLVED)


def _digits(number: int) -> str:
    """Return all digits of a number; Python converts at most 4,300 digits at once."""
    parts = []
    while number >= _CHUNK:
        number, rest = divmod(number, _CHUNK)
        parts.append(f"{rest:0{_CHUNK_DIGITS}d}")
    return "".join((str(number), *reversed(parts)))


def _ranking(graph: FactorGraph, k: int, apart: int, options: dict[str, Any], progress: bool) -> Ranking:
    from equifactor.questions.k_best import k_best

    chosen = {name: options[name] for name in ("solver", "time_limit", "seed")}
    return k_best(graph, k, apart=apart, progress=progress, **chosen)


def _give_ranking(
    ranking: Ranking, path: str, answers: AnswerWriter, query: list[int] | None, as_json: bool
) -> tuple[bool, bool]:
    """Write the best assignments as a table or as JSON; return whether they are proven, and whether there are any."""
    if as_json:
        answers.add(json.dumps({**ranking.to_dict(), "model": path}, allow_nan=False) + "\n")
    elif len(ranking):
        answers.add(f"{ranking.table(ranking.graph.free_vars.tolist() if query is None else query)}\n")
    if not (ranking.status.solved and as_json):
        say(f"{path}: {ranking.status}: {ranking.guarantee}")
    return ranking.status.solved, len(ranking) > 0


def _give(result: Result, path: str, answers: AnswerWriter, answer: str, as_json: bool) -> None:
    """Write one answer, and on stderr what the reader should know about it."""
    if answer:
        answers.add(answer)
    if not result.status.solved:
        say(f"{path}: {result.status}: {result.message or result.status.advice}")
    elif sys.stderr is not None and sys.stderr.isatty() and not as_json:
        say(f"{path}: {result}")
    elif result.unjudged and not as_json:
        say(f"{path}: {result.status}: {result.message}")


def _joint(result: Result, variables: list[int], path: str) -> Joint | None:
    """Return the joint distribution of the variables, or None after a note on stderr that says why it is missing."""
    from equifactor.questions.asking import numbered_joint

    if not result.answered:
        return None
    try:
        return numbered_joint(result, variables)
    except SolveError as error:
        say(f"{path}: {error}")
        return None


def _as_json(result: Result, path: str, query: list[int] | None, joint: Joint | None) -> str:
    from equifactor.cli.readable_answer import by_name

    keys = {**result.to_dict(), "model": path}
    if query is not None:
        keys["query"] = by_name(result, result.graph, query)
    if joint is not None:
        keys["joint"] = joint.to_dict()
    return json.dumps(keys, allow_nan=False) + "\n"


def _as_text(result: Result, query: list[int] | None, answers: AnswerWriter) -> str:
    """Return the answer in the format of the UAI competitions or as a table of names; empty without an answer."""
    from equifactor.cli.readable_answer import readable
    from equifactor.formats.results import format_map, format_mar, format_mmap, format_pr

    graph = result.graph
    if not result.answered:
        return ""
    if result.task is Task.MMAP and query is not None and not _to_terminal(answers):
        return format_mmap(result.assignment, query)
    has_table = result.task is Task.PR or graph.structure.variable_names is not None
    if query is not None or (_to_terminal(answers) and has_table):
        return readable(result, graph, query)
    if result.task is Task.MAR:
        return format_mar(result.marginals)
    if result.task is Task.MAP:
        return format_map(result.assignment, "MAP")
    return format_pr(result.log_z)


def _to_terminal(answers: AnswerWriter) -> bool:
    return answers.path is None and answers.stream is not None and answers.stream.isatty()


@contextlib.contextmanager
def _bar_over(graphs: ModelReader, answers: AnswerWriter) -> Iterator[Progress | None]:
    """Show a bar over several models, unless answers go to the terminal; a single model has the solver's own bar."""
    from equifactor.base.progress import bar

    with bar(len(graphs) > 1 and not _to_terminal(answers), "solving") as report:
        yield report
