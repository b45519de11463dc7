"""`equifactor decode`: flips of the observables of a code, or the logical error rate of a decoder."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from equifactor.base.errors import OptionError
from equifactor.cli.completions import codes, decoding_methods
from equifactor.cli.exit_status import Exit, say
from equifactor.cli.shared_options import example

if TYPE_CHECKING:
    from equifactor.decoding import Decoder, DecodingResult

EXAMPLE = example(
    "equifactor decode bb72 --prior 0.05 --sample 5000 --seed 1",
    'equifactor decode bb72 --prior 0.05 --sample 5000 --seed 1 --method "bp-osd(osd_order=7)"',
)


def decode(
    code: Annotated[
        str,
        typer.Argument(
            metavar="CODE",
            autocompletion=codes,
            help="A .dem, .stim, .alist or .npz file, also with .gz or .xz; or a name such as bb72, bb144.",
        ),
    ],
    shots: Annotated[
        str | None,
        typer.Argument(metavar="SHOTS", help="Detection events in a format of Stim, .01 or .b8; - is stdin."),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Draw N shots of CODE and count logical errors.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the shots that are drawn.")] = 0,
    method: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            autocompletion=decoding_methods,
            help='A method such as min-sum, bp-osd or "relay(solutions=3)"; docs/decoding.md lists them.',
        ),
    ] = "relay",
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File for the flips of observables, one row per shot; - is stdout."
        ),
    ] = "-",
    basis: Annotated[
        str | None, typer.Option(metavar="X|Z", help="Use only the detectors of one basis of a circuit.")
    ] = None,
    prior: Annotated[
        float | None, typer.Option(metavar="P", help="Probability of an error, if CODE has no probabilities.")
    ] = None,
    in_format: Annotated[
        str | None, typer.Option(metavar="01|b8", help="Format of SHOTS; the default follows the suffix.")
    ] = None,
    out_format: Annotated[
        str | None, typer.Option(metavar="01|b8", help="Format of FILE; the default follows the suffix, or is 01.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds; afterwards the shots decoded so far count.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --sample: print one JSON object.")] = False,
) -> None:
    """Decode shots of a code, from a file or drawn at random.

    Give either SHOTS or --sample. With SHOTS, the command writes the flips of the observables in a format of Stim. With
    --sample, it prints the logical error rate with its binomial standard error, and the shots per second.
    """
    from equifactor.decoding import Decoder
    from equifactor.decoding.code_files import read_code
    from equifactor.decoding.methods import decoding_method

    if (shots is None) == (sample is None):
        raise OptionError("Either name a file of shots or draw shots with --sample N.")
    chosen = decoding_method(method)
    decoder = Decoder(read_code(code, basis=basis, prior=prior), method=chosen)
    if sample is not None:
        _count(decoder, sample, seed, time_limit, as_json)
    else:
        assert shots is not None
        _predict(decoder, shots, output, (in_format, out_format), time_limit)


def _count(decoder: Decoder, sample: int, seed: int, time_limit: float | None, as_json: bool) -> None:
    """Print the logical error rate."""
    if not decoder.model.num_observables:
        raise OptionError(
            "The code has no observables, so there are no logical errors. Use a .dem, .stim or .npz file with some."
        )
    found = decoder.logical_error_rate(sample, seed=seed, time_limit=time_limit, progress=True)
    result = found.result
    speed = found.shots / result.seconds if result.seconds else 0.0
    done = max(found.shots, 1)
    if as_json:
        row = {
            "method": result.method, "shots": found.shots, "errors": found.errors, "seconds": result.seconds,
            "converged": int(result.converged.sum()), "iterations": int(result.iterations.sum()),
            "proven": None if result.proven is None else int(result.proven.sum()), "seed": seed,
        }  # fmt: skip
        print(json.dumps(row))
    else:
        proven = "" if result.proven is None else f", {result.proven.sum() / done:.2%} proven"
        print(f"{found} by {result.method}")
        print(
            f"{speed:.4g} shots/s, {result.iterations.sum() / done:.4g} iterations per shot, "
            f"{result.converged.sum() / done:.2%} converged{proven}"
        )
    _end(result)


def _predict(
    decoder: Decoder, shots: str, output: str, formats: tuple[str | None, str | None], time_limit: float | None
) -> None:
    """Decode the shots of a file and write the flips of the observables."""
    from equifactor.base.files import check_writable, write_bytes, write_text
    from equifactor.decoding.shot_files import format_shots, read_shots, shot_format

    in_format = shot_format(shots, formats[0])
    out_format = shot_format(output, formats[1] or ("01" if output == "-" else None))
    if output != "-":
        check_writable(output)
    found = read_shots(shots, decoder.model.num_detectors, in_format)
    result = decoder.decode(found, packed=True, time_limit=time_limit, progress=True)
    content = format_shots(result.flips[: _reached(result)], out_format)
    if output != "-":
        write_bytes(output, content)
    elif out_format == "01":
        write_text(output, content.decode("ascii"))
    else:
        sys.stdout.buffer.write(content)
    say(f"{shots}: {result!r}")
    _end(result)


def _reached(result: DecodingResult) -> int:
    """Return the number of shots before the first one that was not decoded."""
    return len(result) if result.decoded.all() else int(result.decoded.argmin())


def _end(result: DecodingResult) -> None:
    """Report shots that were not decoded, and exit with the status for that."""
    left = int((~result.decoded).sum())
    if left:
        say(f"stopped early: {left} of {len(result)} shots were not decoded")
        raise typer.Exit(Exit.INTERRUPTED if result.interrupted else Exit.UNSOLVED)
