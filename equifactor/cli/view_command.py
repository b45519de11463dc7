"""`equifactor view`: a page in the browser for a model, for results or for a training run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equifactor.base.errors import OptionError
from equifactor.cli.exit_status import say
from equifactor.cli.shared_options import InputFormat, Plugins, Sample, example

if TYPE_CHECKING:
    from equifactor.page.model_session import ModelSession
    from equifactor.page.viewer import Page

EXAMPLE = example(
    "equifactor generate ising --rows 5 --cols 5 --seed 3 -o grid.uai",
    "equifactor view grid.uai -e 12=1 --solver exact --export grid.html",
)


def view(
    path: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model file, a code (.dem, .stim, .alist, .npz), a folder that evaluate wrote, a log (.jsonl) of "
            "train, or a folder of logs.",
        ),
    ],
    evidence: Annotated[
        str | None,
        typer.Option(
            "--evidence",
            "-e",
            metavar="FILE",
            help='Evidence file (UAI or .csv), or observations such as "HR=HIGH,CO=LOW".',
        ),
    ] = None,
    solver: Annotated[
        str | None, typer.Option(metavar="SPEC", help="The solver that the page starts with; see equifactor solvers.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=65535, help="Port of this machine; default any free port.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    export: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the page to one HTML file that works without a server, and stop."),
    ] = None,
    models: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Folder of the models, for a folder of results.")
    ] = None,
    format: InputFormat = None,
    sample: Sample = None,
    plugin: Plugins = None,
) -> None:
    """Show a model in the browser: its graph, marginals, evidence by clicks, solvers side by side and their iterations.

    A code appears as its errors, detectors and observables, or as the bits and checks of a matrix (.alist, .npz).

    A folder that evaluate wrote appears as tables and curves, a training log as curves that grow during the run.

    The server answers only this machine, at an address with a random word, and loads nothing from the network. Ctrl-C
    stops it.
    """
    from equifactor.base.files import check_writable
    from equifactor.base.progress import bar
    from equifactor.page.opening import browse, collection_page
    from equifactor.page.page_export import export as write_page
    from equifactor.page.page_server import PageServer
    from equifactor.page.viewer import Viewer

    if export is not None:
        check_writable(export, (path, evidence))
    shown: Page | None = None if path == "-" or format is not None else collection_page(path, models)
    if shown is None:
        shown = _model(path, evidence, solver, format, sample)
    elif evidence is not None or solver is not None or sample is not None:
        raise OptionError(
            f"--evidence, --solver and --sample need a model, but {path} contains results or a training log."
        )
    viewer = Viewer(shown)
    if export is not None:
        with bar(True, "answers") as report:
            lacks = write_page(viewer, export, report)
        for sentence in lacks:
            say(sentence)
        say(f"the page was written to {export}")
        return
    viewer.prepare()
    server = PageServer(viewer, port)
    print(server.url, flush=True)
    if no_browser or not browse(server.url):
        say("open this address in a browser on this machine; Ctrl-C stops the server")
    else:
        say("the page is open in the browser; Ctrl-C stops the server")
    try:
        server.serve_forever(0.1)
    except KeyboardInterrupt:
        say("the server has stopped")
    finally:
        server.server_close()


def _model(path: str, evidence: str | None, solver: str | None, format: str | None, sample: int | None) -> ModelSession:
    """Return the page of a model. Evidence stays separate from the graph, so that the page can remove it."""
    from equifactor.cli.model_reader import check_stdin, given_evidence
    from equifactor.formats import read_graph
    from equifactor.page.code_graph import is_code, read_code_graph
    from equifactor.page.model_session import ModelSession

    check_stdin(path, evidence)
    graph = read_code_graph(path) if format is None and is_code(path) else read_graph(path, format=format)
    given = {} if evidence is None else given_evidence(graph, evidence, sample)
    observed = graph.condition(given).evidence
    return ModelSession(graph, title=Path(path).name, evidence=observed, solver=solver)
