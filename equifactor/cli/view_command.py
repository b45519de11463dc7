"""`equifactor view`: a page in the browser for a model, for results, or for a training run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equifactor.base.errors import OptionError
from equifactor.cli.exit_status import say
from equifactor.cli.shared_options import InputFormat, Plugins, Sample, example

if TYPE_CHECKING:
    from equifactor.view.model_session import ModelSession
    from equifactor.view.viewer import Page

EXAMPLE = example(
    "equifactor generate ising --rows 5 --cols 5 --seed 3 -o grid.uai",
    "equifactor view grid.uai -e 12=1 --solver exact --export grid.html",
)


def view(
    path: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A model file; or a folder of evaluate, a log (.jsonl) of train, a folder of logs."
        ),
    ],
    evidence: Annotated[
        str | None,
        typer.Option("--evidence", "-e", metavar="FILE", help='UAI evidence, or "HR=HIGH,CO=LOW" by name.'),
    ] = None,
    solver: Annotated[
        str | None, typer.Option(metavar="SPEC", help="The solver the page begins with; see equifactor solvers.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=65535, help="Of this machine; default a free one.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    export: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the page into one HTML file that works from disk, and end."),
    ] = None,
    models: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Where the models of a folder of results are.")
    ] = None,
    format: InputFormat = None,
    sample: Sample = None,
    plugin: Plugins = None,
) -> None:
    """Show a model in the browser: its graph, marginals, evidence by clicks, solvers side by side, their iterations.

    A folder that evaluate wrote is shown as tables and curves, a training log as curves that grow while a run goes on.

    The page is served to this machine alone, under an address with a random word in it, and asks nothing of the
    network. Ctrl-C ends it. docs/view.md tells what can be seen.
    """
    from equifactor.base.progress import bar
    from equifactor.view.opening import browse, collection_page
    from equifactor.view.page_export import export as write_page
    from equifactor.view.page_server import PageServer
    from equifactor.view.viewer import Viewer

    shown: Page | None = None if path == "-" or format is not None else collection_page(path, models)
    if shown is None:
        shown = _model(path, evidence, solver, format, sample)
    elif evidence is not None or solver is not None or sample is not None:
        raise OptionError(f"--evidence, --solver and --sample are for models, and {path} is none")
    viewer = Viewer(shown)
    if export is not None:
        with bar(True, "answers") as report:
            write_page(viewer, export, report)
        say(f"the page is in {export}")
        return
    viewer.prepare()
    server = PageServer(viewer, port)
    print(server.url, flush=True)
    if no_browser or not browse(server.url):
        say("open this address in a browser of this machine; Ctrl-C ends it")
    else:
        say("the page is open in the browser; Ctrl-C ends it")
    try:
        server.serve_forever(0.1)
    except KeyboardInterrupt:
        say("the page is closed")
    finally:
        server.server_close()


def _model(path: str, evidence: str | None, solver: str | None, format: str | None, sample: int | None) -> ModelSession:
    """The page of a model; evidence is kept apart from the graph, so that the page can take it back."""
    from equifactor.cli.model_reader import given_evidence
    from equifactor.formats import read_graph
    from equifactor.view.model_session import ModelSession

    if path == evidence == "-":
        raise OptionError("stdin (-) can be read once only")
    graph = read_graph(path, format=format)
    given = {} if evidence is None else given_evidence(graph, evidence, sample)
    observed = graph.condition(given).evidence
    return ModelSession(graph, title=Path(path).name, evidence=observed, solver=solver)
