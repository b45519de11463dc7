"""The subcommands of `python -m experiments`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from equifactor import OptionError
from equifactor.base.progress import bar
from equifactor.cli.exit_status import Exit, guarded
from equifactor.cli.shared_options import Cluster, example
from experiments.runner import Effort

_PROGRAM = "python -m experiments"
app = typer.Typer(
    name=_PROGRAM,
    help="The comparisons of the paper and beyond, and the weights of the package: tables, figures, results.",
    epilog=example(f"{_PROGRAM} asymmetric --quick --methods BP,FE-NBP --out quick", f"{_PROGRAM} ising --report-only"),
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

Config = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="A .toml file in place of the config in the folder.")
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder for results; default experiments/NAME.")
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Run a small copy in two minutes on a CPU; its results are not meaningful.")
]
ReportOnly = Annotated[bool, typer.Option("--report-only", help="Only write tables and figures of the finished runs.")]
Redo = Annotated[bool, typer.Option("--redo", help="Repeat runs that were made with other settings or other code.")]
Device = Annotated[str, typer.Option("--device", metavar="NAME", help="cpu or cuda, for training.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", metavar="N", help="Number of parallel runs.", min=1)]
Methods = Annotated[str | None, typer.Option("--methods", metavar="A,B", help="Only these lines of the table.")]
TimeLimit = Annotated[
    float | None,
    typer.Option("--time-limit", metavar="SECONDS", help="Start no run after this time; run again to continue."),
]
Data = Annotated[
    str | None, typer.Option("--data", metavar="FOLDER", help="Folder of public models; default EQUIFACTOR_DATA.")
]


def _marginal_command(name: str, about: str) -> None:
    """Add the subcommand of one experiment on marginals."""

    def command(
        config: Config = None,
        out: Out = None,
        quick: Quick = False,
        report_only: ReportOnly = False,
        redo: Redo = False,
        device: Device = "cpu",
        jobs: Jobs = 1,
        cluster: Cluster = None,
        methods: Methods = None,
        sizes: Annotated[
            str | None, typer.Option("--sizes", metavar="N,N", help="Only these numbers of training graphs.")
        ] = None,
        time_limit: TimeLimit = None,
    ) -> None:
        from experiments.experiment_config import load_marginal
        from experiments.marginal_comparison import MarginalComparison

        experiment = load_marginal(config or name)
        chosen = experiment.selected(methods, sizes)
        if quick:
            experiment = chosen = chosen.quick()
        comparison = MarginalComparison(experiment, out or _folder(experiment.name, quick))
        if report_only:
            trouble = comparison.outdated()
        else:
            with bar(True, f"experiment {experiment.name}") as progress:
                trouble = comparison.run(Effort(device, jobs, _until(time_limit), redo, progress, cluster), chosen)
        _finish(comparison.write, trouble)

    command.__doc__ = f"""{about}

    The command trains every network, judges all methods on the same test graphs, and writes tables and a figure.
    Finished runs are stored in DIR: the same command continues a stopped run. Parts (--methods, --sizes) can be run one
    at a time, and the tables show all finished runs.
    """
    lines = [f"{_PROGRAM} {name} --quick --methods FE-NBP --out quick", f"{_PROGRAM} {name} --report-only"]
    app.command(name, short_help=about, epilog=example(*lines))(command)


_marginal_command("ising", "KL and RMSE on 4x4 spin glasses against the number of training graphs.")
_marginal_command("asymmetric", "KL and RMSE on asymmetric fields.")
_marginal_command("transfer", "The networks of ising on larger and other graphs.")
_marginal_command("ablation", "The effect of each part of FE-NBP and FE-Net.")


@app.command(
    short_help="MAP on the public UAI models.",
    epilog=example(
        f"{_PROGRAM} uai --data models --quick --out quick",
        f"{_PROGRAM} uai --data models --train only --device cuda --jobs 6 --time-limit 1500",
    ),
)
def uai(
    config: Config = None,
    out: Out = None,
    quick: Quick = False,
    report_only: ReportOnly = False,
    redo: Redo = False,
    device: Device = "cpu",
    jobs: Jobs = 1,
    cluster: Cluster = None,
    methods: Methods = None,
    time_limit: TimeLimit = None,
    data: Data = None,
    collections: Annotated[
        str | None, typer.Option("--collections", metavar="A,B", help="Only these collections of the folder.")
    ] = None,
    train: Annotated[
        str, typer.Option("--train", metavar="yes|no|only", help="Run solvers and networks, solvers, or networks.")
    ] = "yes",
    parts: Annotated[
        str | None, typer.Option("--parts", metavar="A,B", help="Some of split, folds, curve, doubles; default all.")
    ] = None,
) -> None:
    """Compare MAP solvers on a folder of models with known scores.

    Finished runs are stored in DIR: the same command continues a stopped run. Parts (--collections, --methods, --train,
    --parts) can be run one at a time, and the tables show all finished runs.
    """
    from equifactor.data import collection_names
    from experiments.experiment_config import load_map
    from experiments.map_comparison import PARTS, TRAIN, MapComparison

    experiment = load_map(config or "uai")
    experiment = experiment.quick() if quick else experiment
    chosen_parts = tuple(p.strip() for p in parts.split(",")) if parts else PARTS
    for part in chosen_parts:
        _one_of("--parts", part, PARTS)
    _one_of("--train", train, TRAIN)
    present = [n for n in experiment.collections if n in collection_names(data)]
    if not present:
        raise OptionError(
            f"The folder of public models has none of the collections {', '.join(experiment.collections)}. Pass "
            "another folder as --data FOLDER."
        )
    chosen = experiment.selected(methods, collections or ",".join(present))
    experiment = experiment.selected(None, ",".join(present))
    comparison = MapComparison(experiment, out or _folder(experiment.name, quick), data)
    trouble: list[str] = []
    if not report_only:
        with bar(True, f"experiment {experiment.name}") as progress:
            effort = Effort(device, jobs, _until(time_limit), redo, progress, cluster)
            trouble = comparison.run(effort, chosen, train=train, parts=chosen_parts)
    _finish(comparison.write, trouble)


@app.command(
    short_help="Bit and word error rates of a code under bursty noise.",
    epilog=example(
        f"{_PROGRAM} bursty --quick --methods FE-NBP --out quick",
        f"{_PROGRAM} bursty --device cuda --jobs 8 --time-limit 300 --out results",
    ),
)
def bursty(
    config: Config = None,
    out: Out = None,
    quick: Quick = False,
    report_only: ReportOnly = False,
    redo: Redo = False,
    device: Device = "cpu",
    jobs: Jobs = 1,
    methods: Methods = None,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", metavar="SECONDS", help="End within this time; training is cut.")
    ] = None,
) -> None:
    """Compare classical decoders and trained networks on the same words of one code, as in the papers of NEBP and FGNN.

    Every network is trained on the same number of words and gradient steps: the number in the config, or as many as the
    time limit allows. Finished runs are stored in DIR: the same command continues a stopped run.
    """
    from experiments.bursty_comparison import BurstyComparison
    from experiments.experiment_config import load_bursty

    experiment = load_bursty(config or "bursty")
    chosen = experiment.selected(methods)
    if quick:
        experiment, chosen = experiment.quick(), chosen.quick()
    comparison = BurstyComparison(experiment, out or _folder(experiment.name, quick))
    if report_only:
        trouble = comparison.outdated()
    else:
        with bar(True, f"experiment {experiment.name}") as progress:
            effort = Effort(device, jobs, _until(time_limit), redo, progress)
            trouble = comparison.run(effort, chosen, time_limit)
    _finish(comparison.write, trouble)


@app.command(
    short_help="Fit how far marginals of fe-net are trusted.",
    epilog=example(f"{_PROGRAM} trust --data models --jobs 2"),
)
def trust(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="File to write; default: in the package.")
    ] = None,
    data: Data = None,
    count: Annotated[int, typer.Option("--count", help="Random graphs of each family.")] = 160,
    jobs: Jobs = 1,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the fit.")] = 0,
    unseen: Annotated[bool, typer.Option("--unseen", help="Also measure every family by a fit without it.")] = False,
) -> None:
    """Fit the weights of the network and of BP in the marginals of fe-net, on random graphs and half of the models."""
    from equifactor.show.text_tables import markdown
    from equifactor.solvers.learned.trust_model import FILE
    from experiments.trust_training import make_trust

    for lines in make_trust(out or FILE, count, jobs, data, seed, unseen):
        print(markdown([list(lines[0]), *(list(line.values()) for line in lines)]), "\n")


@app.command(
    short_help="Make weights that come with the package.",
    epilog=example(
        f"{_PROGRAM} weights fe-net MAR --device cuda --seconds 500",
        f"{_PROGRAM} weights fe-net MAP --device cuda --seconds 500 --data models",
    ),
)
def weights(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="fe-net, fe-nbp or fe-gnn.")],
    task: Annotated[str, typer.Argument(metavar="TASK", help="MAR or MAP.")],
    device: Device = "cpu",
    seconds: Annotated[float, typer.Option("--seconds", help="Time for the whole run.")] = 600.0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Folder for the file; default: in the package.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of training.")] = 0,
    start: Annotated[Path | None, typer.Option("--start", metavar="FILE", help="Model file to start from.")] = None,
    lr: Annotated[float | None, typer.Option("--lr", help="Learning rate; default: the rate of the kind.")] = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="FOLDER", help="MAP: public models, whose training split is used.")
    ] = None,
    balance: Annotated[float, typer.Option("--balance", help="MAR: 0 weighs graphs equally, 1 by KL.")] = 0.8,
    network: Annotated[str, typer.Option("--network", metavar="JSON", help="Settings of the network.")] = "{}",
    share: Annotated[float, typer.Option("--share", help="Share of the graphs of each family.")] = 1.0,
    batch: Annotated[int, typer.Option("--batch", help="Graphs per gradient step.")] = 100,
    states: Annotated[int, typer.Option("--states", help="Largest number of edge states per gradient step.")] = 40_000,
) -> None:
    """Train one general-purpose model on the mixture of weights/config.toml and print its measures."""
    from experiments.network_files import shipped_folder
    from experiments.weights_judge import TASKS
    from experiments.weights_training import KINDS, WeightsRecipe, make_weights

    _one_of("KIND", kind, KINDS)
    _one_of("TASK", task, TASKS)
    recipe = WeightsRecipe(
        kind, task, device, seconds, seed, start, lr=lr, data=data, balance=balance, network=_settings(network),
        share=share, batch=batch, states=states,
    )  # fmt: skip
    print(json.dumps(make_weights(recipe, out or shipped_folder())))


@app.command(
    short_help="Make the weights of fe-net for MAR.",
    epilog=example(f"{_PROGRAM} shapes fe-net-mar.safetensors --seconds 430 --lr 0.001"),
)
def shapes(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="Model file to write, with a log beside it.")],
    device: Device = "cuda",
    seconds: Annotated[float, typer.Option("--seconds", help="Time for the whole run.")] = 430.0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of training.")] = 0,
    lr: Annotated[float, typer.Option("--lr", help="The largest learning rate.")] = 1.5e-3,
    start: Annotated[str, typer.Option("--start", metavar="FILE", help="Weights to start from.")] = "shipped",
    network: Annotated[
        str, typer.Option("--network", metavar="JSON", help="Settings of a network from random weights.")
    ] = "{}",
    share: Annotated[float, typer.Option("--share", help="Share of the graphs of each prepared family.")] = 1.0,
    pairs: Annotated[int | None, typer.Option("--pairs", help="Use only the first N shapes of pair models.")] = None,
) -> None:
    """Train fe-net for MAR on few shapes of graphs, whose captured steps a GPU repeats with new potentials."""
    from experiments.shape_training import ShapeRecipe, train_on_shapes

    recipe = ShapeRecipe(_settings(network), start, device, seconds, seed=seed, lr=lr, share=share, pairs=pairs)
    print(json.dumps(train_on_shapes(recipe, out)))


@app.command(
    short_help="Judge the weights of the package.",
    epilog=example(f"{_PROGRAM} judge MAR --data models", f"{_PROGRAM} judge MAP --report-only"),
)
def judge(
    task: Annotated[str, typer.Argument(metavar="TASK", help="MAR or MAP.")],
    data: Annotated[
        str | None, typer.Option("--data", metavar="FOLDER", help="Folder of public models to judge on as well.")
    ] = None,
    files: Annotated[
        Path | None, typer.Option("--weights", metavar="DIR", help="Folder of other model files to judge.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for results.")] = Path(
        "experiments/weights"
    ),
    report_only: ReportOnly = False,
    redo: Redo = False,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    time_limit: TimeLimit = None,
) -> None:
    """Compare the weights of the package with the best fixed damping of BP, on many families of graphs."""
    from experiments.network_files import shipped_folder
    from experiments.run_store import RunStore
    from experiments.weights_judge import TASKS, judgements, write_judgement
    from experiments.weights_judge import judge as judge_all

    _one_of("TASK", task, TASKS)
    store = RunStore(out)
    trouble: list[str] = []
    if not report_only:
        with bar(True, f"judge {task}") as progress:
            effort = Effort("cpu", jobs, _until(time_limit), redo, progress, cluster)
            trouble = judge_all(judgements(task, files or shipped_folder(), data), store, effort)
    _finish(lambda: write_judgement(task, store), trouble)


@app.command(
    short_help="Score card of MAP over all collections.",
    epilog=example(
        "equifactor evaluate models --task MAP --solver auto --time-limit 20 -o results/card",
        f"{_PROGRAM} card results/card/results.json uai2022_reference.csv",
    ),
)
def card(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="results.json of equifactor evaluate.")],
    board: Annotated[
        Path | None, typer.Argument(metavar="BOARD", help="CSV file with the values of the competition's board.")
    ] = None,
) -> None:
    """Print one line per collection in units of the UAI-2022 score, beside the board of the competition."""
    from experiments.score_card import card_page

    sys.stdout.write(card_page(results, board))


def _settings(text: str) -> dict[str, Any]:
    """Return the settings of a network, given as an object in JSON."""
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError):
        raise OptionError(f"--network must be an object in JSON, found {text!r}.") from None


def main(args: Sequence[str] | None = None) -> int:
    """Run the program with these arguments, by default the arguments of the process; return the exit status."""
    return guarded(_run, list(sys.argv[1:] if args is None else args))


def _run(args: list[str]) -> int:
    command = typer.main.get_command(app)
    try:
        with command.make_context(_PROGRAM, args or ["--help"]) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return Exit.DONE


def _finish(write: Callable[[], list[Path]], trouble: Sequence[str]) -> None:
    """Print the missing runs, write all files and print the first table; the exit status is 0 if no run is missing."""
    for sentence in trouble:
        print(f"missing: {sentence.rstrip('.')}. Run the same command again to continue.", file=sys.stderr)
    written = write()
    for page in [path for path in written if path.suffix == ".md"][:1]:
        print(page.read_text(encoding="utf-8"))
    if written:
        print("written: " + ", ".join(str(p) for p in written))
    if trouble:
        raise typer.Exit(Exit.UNSOLVED)


def _folder(name: str, quick: bool) -> Path:
    return Path("experiments") / f"{name}{'-quick' * quick}"


def _until(time_limit: float | None) -> float | None:
    return None if time_limit is None else time.time() + time_limit


def _one_of(what: str, word: str, words: Sequence[str]) -> None:
    if word not in words:
        raise OptionError(f"{what} cannot be {word!r}; choose from: {', '.join(words)}.")
