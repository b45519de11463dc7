"""`equifactor decode`: flips of the observables of a code, or the error rate of a decoder."""

from __future__ import annotations

from os.path import realpath
from typing import TYPE_CHECKING, Annotated

import typer

from equifactor.base.errors import OptionError
from equifactor.cli.completions import codes, decoding_methods
from equifactor.cli.decode_counts import SampleRequest, count_errors
from equifactor.cli.exit_status import Exit, say
from equifactor.cli.shared_options import example

if TYPE_CHECKING:
    from equifactor.base.typing import BoolArray
    from equifactor.decoding import Decoder, DecodingResult

EXAMPLE = example(
    "equifactor decode bb72 --prior 0.05 --sample 5000 --seed 1",
    'equifactor decode bb72 --prior 0.05 --sample 5000 --seed 1 --method "bp-osd(scale=0.625)"',
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
        int | None, typer.Option(metavar="N", min=1, help="Draw N shots or words of CODE and count errors.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the shots that are drawn.")] = 0,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            autocompletion=decoding_methods,
            help='A method such as min-sum, bp-osd or "relay(solutions=3)"; `equifactor solvers relay` lists its '
            "settings. The default is pooled, search for circuits of bicycle or colour codes, and sum-product for "
            "words.",
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File for the flips of observables, one row per shot (for a code without observables: the errors "
            "found), or with --sample for the error rate; - is stdout.",
        ),
    ] = "-",
    corrections: Annotated[
        str | None, typer.Option(metavar="FILE", help="File for the errors found, one row per shot, .01 or .b8.")
    ] = None,
    basis: Annotated[
        str | None,
        typer.Option(metavar="X|Z", help="Use only the detectors of one basis of a circuit; SHOTS hold all of them."),
    ] = None,
    prior: Annotated[
        float | None,
        typer.Option(metavar="P", min=0.0, max=1.0, help="Probability of an error, if CODE has no probabilities."),
    ] = None,
    ebn0: Annotated[
        float | None,
        typer.Option(metavar="DB", help="With --sample: send words of CODE through white noise of this Eb/N0 in dB."),
    ] = None,
    in_format: Annotated[
        str | None, typer.Option(metavar="01|b8|dets", help="Format of SHOTS; the default follows the suffix.")
    ] = None,
    out_format: Annotated[
        str | None, typer.Option(metavar="01|b8", help="Format of FILE; the default follows the suffix; stdout has 01.")
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Seconds after which no shot begins; shots that have begun get half a second and 5 % more.",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads of the CPU; the default is all cores.")
    ] = None,
    curve: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="With --sample and --method pooled: file (.csv, .png, .svg, .pdf) for the error rate against the "
            "share of the least certain shots that is set aside.",
        ),
    ] = None,
    gaps: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="With SHOTS and --method pooled: file for the gap of every shot, a line each."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the FILE of an earlier run that was stopped.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --sample: print one JSON object.")] = False,
) -> None:
    """Decode shots of a code, from a file or drawn at random.

    Give either SHOTS or --sample. With SHOTS, the command writes the flips of the observables in a format of Stim. With
    --sample, it prints the logical error rate with its binomial standard error, and the shots per second. For a code
    without observables (.alist, .npz) --sample counts word errors: over a binary symmetric channel with --prior, or
    white Gaussian noise with --ebn0.
    """
    from equifactor.base.files import check_writable
    from equifactor.base.run_context import check_run
    from equifactor.decoding.methods import decoding_method

    check_run(time_limit, seed, False)
    chosen = None if method is None else str(decoding_method(method))  # Checked before a large code is read.
    for path in (output, corrections, curve, gaps):
        if path is not None:
            check_writable(path, (code, shots))
    if (shots is None) == (sample is None):
        raise OptionError("Either name a file of shots or draw shots with --sample N.")
    if resume and output == "-":
        raise OptionError("--resume continues a file. Name the file with -o FILE.")
    if sample is not None:
        for name, value in (
            ("--corrections", corrections), ("--in-format", in_format), ("--out-format", out_format), ("--gaps", gaps)
        ):  # fmt: skip
            if value is not None:
                raise OptionError(f"{name} {value} has no meaning with --sample, which writes the error rate alone.")
        asked = SampleRequest(code, basis, prior, ebn0, chosen, sample, seed)
        as_json = as_json or resume or output.endswith(".json")
        count_errors(asked, output, time_limit, threads=threads, resume=resume, as_json=as_json, curve=curve)
        return
    for name, given in (
        ("--ebn0", ebn0 is not None),
        ("--json", as_json),
        ("--seed", seed != 0),
        ("--curve", curve is not None),
    ):
        if given:
            raise OptionError(f"{name} has no meaning for shots from a file. It belongs to --sample N.")
    from equifactor.decoding import Decoder
    from equifactor.decoding.code_sources import read_source

    decoder = Decoder(read_source(code, prior, basis=basis), method=chosen)
    if decoder.model.num_observables:
        outputs = {"flips": output} if corrections is None else {"flips": output, "corrections": corrections}
    elif corrections is None or output == "-":
        say(f"{code}: the code has no observables, so the errors found are written, one row per shot")
        outputs = {"corrections": corrections or output}
    else:
        raise OptionError(f"{code}: the code has no observables, so -o {output} has no flips to hold. Leave it out.")
    assert shots is not None
    files = [realpath(path) for path in (*outputs.values(), gaps) if path not in (None, "-")]
    if len(set(files)) < len(files):
        raise OptionError("One file cannot hold two of: the flips, the errors found and the gaps. Name other files.")
    if gaps is not None:
        _check_gaps(gaps, chosen, outputs, resume=resume)
    _predict(decoder, shots, outputs, (in_format, out_format), time_limit, threads, resume, gaps)


def _check_gaps(gaps: str, method: str | None, outputs: dict[str, str], *, resume: bool) -> None:
    """Raise an error if gaps could not be written, before any shot is decoded."""
    from equifactor.cli.decode_counts import states_gaps

    if resume:
        raise OptionError(f"--gaps {gaps} cannot be continued by --resume. Leave out one of the two.")
    if gaps == "-" and "-" in outputs.values():
        raise OptionError("Gaps and flips cannot both be written to stdout. Name a file with -o FILE.")
    if not states_gaps(method):
        raise OptionError(f"--gaps {gaps}: {method} does not state gaps. Use --method pooled.")


def _predict(
    decoder: Decoder,
    shots: str,
    outputs: dict[str, str],
    formats: tuple[str | None, str | None],
    time_limit: float | None,
    threads: int | None,
    resume: bool,
    gaps: str | None,
) -> None:
    """Decode the shots of a file, and write the flips of the observables, the errors found and the gaps."""
    import numpy as np

    from equifactor.base.files import write_text
    from equifactor.decoding.shot_files import read_shots, shot_format

    widths = {"flips": decoder.model.num_observables, "corrections": decoder.model.num_errors}
    in_format = shot_format(shots, formats[0], reads=True)
    kinds = {kind: shot_format(path, formats[1] or ("01" if path == "-" else None)) for kind, path in outputs.items()}
    old = {kind: np.zeros((0, widths[kind]), bool) for kind in outputs}
    for kind, path in outputs.items():
        if resume and _exists(path):
            rows = read_shots(path, widths[kind], kinds[kind])
            old[kind] = np.unpackbits(rows, axis=1, bitorder="little", count=widths[kind]).astype(bool)
    found, packed = _read_events(decoder, shots, in_format)
    done = min(map(len, old.values()))
    if len({len(rows) for rows in old.values()}) > 1 or done > len(found):
        sizes = ", ".join(f"{outputs[kind]} has {len(old[kind])} rows" for kind in outputs)
        raise OptionError(f"These files cannot be continued: {sizes}, and there are {len(found)} shots.")
    result = decoder.decode(
        found[done:], packed=packed, corrections="corrections" in outputs, time_limit=time_limit, threads=threads,
        progress=True,
    )  # fmt: skip
    reached = len(result) if result.decoded.all() else int(np.argmin(result.decoded))  # Rows end before a gap.
    if gaps is not None:
        write_text(gaps, "".join(f"{gap:.6g}\n" for gap in result.stated_gaps()[:reached]))
    for kind, path in outputs.items():
        new = result.flips if kind == "flips" else result.corrections
        assert new is not None
        _write(path, np.concatenate((old[kind], new[:reached].astype(bool))), kinds[kind])
    if done and done == len(found):
        return say(f"{shots}: all {done} shots were decoded by an earlier run")
    say(f"{shots}: decoded {result}" + (f" after {done} shots of an earlier run" if done else ""))
    _end(result, reached)


def _exists(path: str) -> bool:
    from pathlib import Path

    return path != "-" and Path(path).exists()


def _read_events(decoder: Decoder, shots: str, form: str) -> tuple[BoolArray, bool]:
    """Read the shots of a file, and return whether they are packed.

    If the model keeps only some detectors, the file holds all of them, as Stim writes it. A file in format 01 may also
    hold the kept detectors alone: the length of its lines shows which.
    """
    import numpy as np

    from equifactor.base.errors import FormatError
    from equifactor.decoding.shot_files import read_shots

    model = decoder.model
    if model.kept_detectors is None or model.num_all_detectors is None:
        return read_shots(shots, model.num_detectors, form), True  # type: ignore[return-value]
    try:
        count = model.num_all_detectors
        packed = read_shots(shots, count, form)
    except FormatError:
        if form != "01" or shots == "-":
            raise
        count = model.num_detectors
        packed = read_shots(shots, count, form)
    bits = np.unpackbits(packed, axis=1, bitorder="little", count=count).astype(bool)
    return bits, False


def _write(path: str, rows: BoolArray, form: str) -> None:
    """Write rows of bits to a file or to stdout."""
    import sys

    from equifactor.base.files import write_bytes, write_text
    from equifactor.decoding.shot_files import format_shots

    content = format_shots(rows, form)
    if path != "-":
        write_bytes(path, content)
    elif form == "01":
        write_text(path, content.decode("ascii"))
    else:
        sys.stdout.buffer.write(content)


def _end(result: DecodingResult, written: int) -> None:
    """Report shots that were not written, and exit with the status for that."""
    left = len(result) - written
    if left:
        why = (
            "were not decoded"
            if written == result.decoded.sum()
            else "are not written, from the first undecided one on"
        )
        say(f"stopped early: {left} of {len(result)} shots {why}")
        raise typer.Exit(Exit.INTERRUPTED if result.interrupted else Exit.UNSOLVED)
