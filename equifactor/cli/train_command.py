"""`equifactor train`: a model file from data. The flags of a run are the fields of `TrainingSettings`."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from equifactor.base.clock import Clock
from equifactor.base.errors import OptionError
from equifactor.base.files import check_new
from equifactor.base.options import parse_value, with_settings
from equifactor.cli.completions import model_files, network_kinds, trained_models, words
from equifactor.cli.exit_status import Exit
from equifactor.cli.shared_options import Plugins, example
from equifactor.learning.training.training_settings import TrainingSettings

if TYPE_CHECKING:
    from equifactor.learning.training.evidence_sets import EvidenceSets

EXAMPLE = example(
    'equifactor train fe-nbp --task MAR --data "ising(4x4, n=200)" --epochs 3 --out mine.safetensors',
    "equifactor train learned-memory --task DECODE --data bb72:0.06 --set steps=1 --set shots=32 --out net.safetensors",
)


def _train(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            autocompletion=network_kinds,
            help="fe-nbp, fe-gnn, fe-net, or a baseline: bpnn, nebp, ggnn, fgnn; learned-memory for DECODE.",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Model file to write; the log and the checkpoint go beside it."
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            metavar="DATA",
            help='A folder of models (FOLDER:Grids,DBN:train for collections and a split), or a generator: "ising(4x4, '
            'n=1000)"; for DECODE a code, as CODE:PRIOR or CIRCUIT.stim:BASIS. May be repeated.',
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            autocompletion=model_files,
            help="In place of --data: one model, given evidence drawn from it. Ends with a comparison with BP.",
        ),
    ] = None,
    evidence_sets: Annotated[
        int, typer.Option("--evidence-sets", metavar="N", help="With --model: number of evidence sets.")
    ] = 200,
    observe: Annotated[
        str,
        typer.Option(
            "--observe",
            metavar="SHARE|A,B",
            help="With --model: share of the variables that each evidence set observes, or the variables to observe.",
        ),
    ] = "0.3",
    task: Annotated[
        str,
        typer.Option(
            "--task", "-t", metavar="TASK", autocompletion=words("MAR", "MAP", "DECODE"), help="MAR, MAP or DECODE."
        ),
    ] = "MAR",
    network: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the network; may be repeated."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--start",
            metavar="shipped|FILE",
            autocompletion=trained_models,
            help="Start from the weights of the package or of a model file, with its settings. Defaults then suit "
            "few graphs: --lr 1e-3, --batch-size 10, --epochs 200, --patience 30; a fifth of the graphs is held out, "
            "and the start is kept unless the gain is clear.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint beside FILE.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE and its checkpoint.")] = False,
    plugin: Plugins = None,
    **settings: Any,
) -> None:
    if task.upper() == "DECODE":
        from equifactor.cli.decoder_training import train_decoder

        if start is not None or resume or model is not None:
            raise OptionError("--start, --resume and --model need --task MAR or MAP; --task DECODE trains on a code.")
        if not data:
            raise OptionError("--task DECODE needs a code: --data CODE:PRIOR or --data CIRCUIT.stim:BASIS.")
        if not overwrite:
            check_new(out, "Add --overwrite to replace it, or name another file.")
        defaults = {field.name: field.default for field in dataclasses.fields(TrainingSettings)}
        return train_decoder(kind, data, out, _network_settings(kind, network or []), defaults | settings)
    from equifactor.learning.training.trainer import train as run_training

    if (model is None) == (not data):
        raise OptionError(f"Pass either --data or --model; found {'neither' if model is None else 'both'}.")
    source = (data or []) if model is None else _evidence_sets(model, evidence_sets, observe)
    before = Clock.interrupts
    trained = run_training(
        with_settings(kind, _network_settings(kind, network or [])), source, task, out,
        start=start, resume=resume, overwrite=overwrite, progress=True, **settings,
    )  # fmt: skip
    if not trained.is_first:
        return
    for sentence in trained.left_out:
        print(f"left out {sentence}", file=sys.stderr)
    measures = ", ".join(
        f"{k} {v:.6g}" for k, v in trained.metrics.items() if k != "epoch" and not k.startswith("test")
    )
    begun = "the untrained network: no epoch was better"
    if start is not None:
        begun = "the weights it started from: no epoch was clearly better"
    unchanged = "" if trained.metrics["epoch"] else f" ({begun})"
    print(f"{trained.path}: best in epoch {trained.metrics['epoch']}{unchanged}, validation {measures}")
    if "test graphs" in trained.metrics:
        _print_comparison(kind, trained.metrics)
    if not trained.finished:
        print(f"stopped before the end; add --resume to continue {trained.path}", file=sys.stderr)
        raise typer.Exit(Exit.INTERRUPTED if Clock.interrupts > before else Exit.UNSOLVED)


def _evidence_sets(model: str, count: int, observe: str) -> EvidenceSets:
    from equifactor.learning.training.evidence_sets import EvidenceSets

    try:
        return EvidenceSets(model, count, float(observe)) if "." in observe else _named(model, count, observe)
    except ValueError:  # A name may contain a dot.
        return _named(model, count, observe)


def _named(model: str, count: int, observe: str) -> EvidenceSets:
    """Return evidence sets on the variables of a comma-separated list; a number is a variable without a name."""
    from equifactor.formats import read_graph
    from equifactor.learning.training.evidence_sets import EvidenceSets

    graph = read_graph(model)
    known = graph.variable_names or ()
    words = [word.strip() for word in observe.split(",")]
    return EvidenceSets(graph, count, [int(w) if w.isdecimal() and w not in known else w for w in words])


def _print_comparison(kind: str, found: dict[str, Any]) -> None:
    """Print the errors of the network and of BP on evidence sets that were not used in training."""
    measure = next(name for name in found if name.startswith("test ") and f"{name} of BP" in found)
    own, bp = found[measure], found[f"{measure} of BP"]
    verdict = "" if own < bp else "; BP is at least as good on this model"
    name = measure.removeprefix("test ")
    print(f"on {found['test graphs']} other evidence sets: {name} {own:.6g} of {kind}, {bp:.6g} of BP{verdict}")


def _network_settings(kind: str, texts: list[str]) -> dict[str, Any]:
    settings = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise OptionError(f"--set expects NAME=VALUE, such as channels=32; found {text!r} for {kind}.")
        settings[name] = parse_value(value)
    return settings


def _with_settings(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function with one option per field of `TrainingSettings` in place of its `**settings`."""
    hints = typing.get_type_hints(TrainingSettings)
    known = typing.get_type_hints(function, include_extras=True)
    own = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    parameters = [inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    parameters += [p.replace(kind=p.KEYWORD_ONLY, annotation=known[p.name]) for p in own]
    names = [field.name for field in dataclasses.fields(TrainingSettings)]
    for field in dataclasses.fields(TrainingSettings):
        hint, flag = hints[field.name], "--" + field.name.replace("_", "-")
        text = field.metadata["help"]
        given: dict[str, Any] = {"help": text[:1].upper() + text[1:] + "."}
        if typing.get_origin(hint) is Literal:
            given["metavar"] = "|".join(typing.get_args(hint))
            hint = str
        option = typer.Option(flag, **given)
        parameters.append(
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=Annotated[hint, option]
            )
        )

    def train(ctx: typer.Context, **given: Any) -> None:
        # Settings that were not stated are left out, because their defaults depend on --start.
        unstated = [n for n in names if str(ctx.get_parameter_source(n)).endswith("DEFAULT")]
        function(**{name: value for name, value in given.items() if name not in unstated})

    train.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    train.__annotations__ = {p.name: p.annotation for p in parameters}
    train.__doc__ = "Train a network on models with exactly computed answers; for MAP, on their best known scores."
    return train


train = _with_settings(_train)
