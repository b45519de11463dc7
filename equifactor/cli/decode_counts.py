"""`equifactor decode --sample`: logical errors or word errors, counted in one run or in several that are resumed."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import asdict, dataclass
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from equifactor.base.clock import Clock
from equifactor.base.errors import FormatError, OptionError
from equifactor.cli.exit_status import Exit, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from equifactor.decoding import ErrorModel

_CURVES = (".csv", ".png", ".svg", ".pdf")  # The suffixes of files that hold a curve.
_RARELY = 0.5  # A decoder that explains a smaller share of the shots rarely converges. Chosen by hand.
_MISSED, _FEW = (
    0.3,
    10,
)  # The share of wrong shots with likelier true errors, and their number, that give a sentence.
_SUMS = ("missed", "shots", "errors", "bit_errors", "converged", "iterations", "proven", "seconds")


@dataclass(frozen=True)
class SampleRequest:
    """What is counted: the arguments of the command."""

    code: str
    basis: str | None
    prior: float | None
    ebn0: float | None
    method: str | None
    sample: int
    seed: int


def count_errors(
    asked: SampleRequest,
    output: str,
    time_limit: float | None,
    *,
    threads: int | None = None,
    resume: bool = False,
    as_json: bool = False,
    curve: str | None = None,
) -> None:
    """Draw shots or words, count the errors of a decoder, and write the result as text or as one JSON object.

    `curve` is a file for the rate against the share of shots set aside: `.csv` or a picture.
    """
    from equifactor.base.files import write_text
    from equifactor.decoding.code_sources import has_priors, read_source

    needs_no_prior = asked.ebn0 is not None and asked.prior is None and not has_priors(asked.code)
    model = read_source(asked.code, 0.25 if needs_no_prior else asked.prior, basis=asked.basis)
    of_words = not model.num_observables
    if curve is not None:
        _check_curve(curve, asked, output, of_words=of_words)
    if of_words and asked.prior is None and asked.ebn0 is None:
        raise OptionError(
            "The code has no observables, so there are no logical errors. Use a .dem, .stim or .npz file that has "
            "observables. For the word errors of an .alist file name a channel: --prior 0.02 or --ebn0 2."
        )
    if asked.ebn0 is not None and (asked.prior is not None or not of_words):
        raise OptionError(
            "--ebn0 is the noise of words of a code without observables, in place of --prior. Leave out one of the two."
            if of_words
            else f"{asked.code}: --ebn0 is the noise of words of a code without observables. Leave it out."
        )
    old = _read_row(output, asked) if resume and Path(output).exists() else {}
    first = int(old.get("shots", 0))
    if first >= asked.sample and not old.get("undecided"):
        raise OptionError(f"{output}: {first} of {asked.sample} shots are counted already. Raise --sample.")
    clock = Clock(time_limit)
    count = _count_words if of_words else functools.partial(_count_shots, threads=threads)
    row = _decided(count, model, asked, old, clock)
    if first < asked.sample and not row.get("interrupted") and (not clock.stopped or not row):
        left = None if time_limit is None else clock.left
        row = _added(row, count(model, asked, (first, asked.sample), left))
    interrupted = row.pop("interrupted", False)
    row = {**asdict(asked), **row, "rate_bounds": _bounds(row)}
    write_text(output, json.dumps(row) + "\n" if as_json else _text(row) + "\n")
    if curve is not None:
        _write_curve(curve, row)
    if row["undecided"]:
        say(f"{len(row['undecided'])} of {row['shots']} shots were undecided at the time limit")
    if row["shots"] < asked.sample:
        say(f"stopped early: {asked.sample - row['shots']} of {asked.sample} shots were not decoded")
    if row["shots"] < asked.sample or row["undecided"]:
        raise typer.Exit(Exit.INTERRUPTED if interrupted else Exit.UNSOLVED)


def _check_curve(path: str, asked: SampleRequest, output: str, *, of_words: bool) -> None:
    """Raise an error if a curve could not be written to this file, before any shot is decoded."""
    from equifactor.base.optional_packages import needed

    if Path(path).suffix not in _CURVES or realpath(path) == realpath(output):
        other = " and differ from that of -o" if realpath(path) == realpath(output) else ""
        raise OptionError(f"--curve {path}: the name of the file must end in one of {', '.join(_CURVES)}{other}.")
    if of_words or not states_gaps(asked.method):
        name = "sum-product, the default for words," if of_words and asked.method is None else asked.method
        raise OptionError(f"--curve {path}: {name} does not state gaps of shots. Use --method pooled.")
    if not path.endswith(".csv"):
        needed("matplotlib", f"--curve {path}")


def states_gaps(method: str | None) -> bool:
    """Return whether a method states gaps; None is the default method for shots."""
    from equifactor.decoding.decoder import default_method
    from equifactor.decoding.methods import ClassDecoding, PooledDecoding, decoding_method

    return isinstance(decoding_method(method or default_method("cpu")), (PooledDecoding, ClassDecoding))


def _write_curve(path: str, row: dict[str, Any]) -> None:
    """Write the rate against the share of shots set aside."""
    from equifactor.base.files import write_text
    from equifactor.decoding.post_selection import curve_of_counts

    if row.get("gaps") is None or not row["shots"]:
        return say(f"{path} was not written: no shot was decoded")
    curve = curve_of_counts(row["gaps"])
    if path.endswith(".csv"):
        write_text(path, curve.to_csv())
    else:
        curve.plot(row["method"]).figure.savefig(path)  # type: ignore[union-attr]


def _bounds(row: dict[str, Any]) -> list[float] | None:
    """Return errors per shot if all undecided shots are right, and if all are wrong; None without a shot."""
    counts = row["errors"], row["errors"] + len(row["undecided"])
    return [n / row["shots"] for n in counts] if row["shots"] else None


def _decided(
    count: Callable[..., dict[str, Any]], model: ErrorModel, asked: SampleRequest, old: dict[str, Any], clock: Clock
) -> dict[str, Any]:
    """Return the counts of an earlier run, after its undecided shots are decoded as far as time allows."""
    row = dict(old)
    for number in old.get("undecided", []):
        if clock.stopped or row.get("interrupted"):
            break
        left = None if clock.time_limit is None else clock.left
        new = count(model, asked, (number, number + 1), left)
        if new["shots"]:
            row["undecided"] = [n for n in row["undecided"] if n != number]
            row["shots"] -= 1
            row = _added(row, new)
    return row


def _added(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the sums of the counts of two runs."""
    from equifactor.decoding.iteration_spread import added_counts

    row = dict(new)
    for name in _SUMS:
        if row.get(name) is not None and old.get(name) is not None:
            row[name] += old[name]
    if row.get("iteration_counts") is not None:
        row["iteration_counts"] = added_counts(row["iteration_counts"], old.get("iteration_counts") or [])
    if row.get("gaps") and old.get("gaps"):
        sums = {name: zip(row["gaps"][name], old["gaps"][name], strict=True) for name in ("shots", "errors")}
        row["gaps"] = {name: [a + b for a, b in pairs] for name, pairs in sums.items()}
    row["undecided"] = sorted([*old.get("undecided", []), *row["undecided"]])
    return row


def _count_shots(
    model: ErrorModel,
    asked: SampleRequest,
    span: tuple[int, int],
    time_limit: float | None,
    threads: int | None,
) -> dict[str, Any]:
    """Return the counts of logical errors of the shots from the first to the last - 1 of a span."""
    import numpy as np

    from equifactor.decoding import Decoder
    from equifactor.decoding.iteration_spread import counts_by_iterations
    from equifactor.decoding.post_selection import counts_by_gap

    decoder = Decoder(model, method=asked.method)
    found = decoder.logical_error_rate(
        span[1] - span[0], seed=asked.seed, first=span[0], time_limit=time_limit, threads=threads, progress=True
    )
    result = found.result
    decided, gaps = result.decoded, None
    if result.gap is not None and found.wrong is not None:
        gaps = counts_by_gap(result.gap[decided], found.wrong[decided])
    return {
        "gaps": gaps, "iteration_counts": counts_by_iterations(result.iterations[decided]),
        "missed": found.missed,
        "method": result.method, "shots": found.shots, "errors": found.errors, "seconds": result.seconds,
        "converged": int(result.converged.sum()), "iterations": int(result.iterations.sum()),
        "proven": None if result.proven is None else int(result.proven.sum()), "interrupted": result.interrupted,
        "undecided": (span[0] + np.flatnonzero(result.undecided)).tolist(),
    }  # fmt: skip


def _count_words(
    model: ErrorModel, asked: SampleRequest, span: tuple[int, int], time_limit: float | None
) -> dict[str, Any]:
    """Return the counts of words and bits that are decoded wrongly, of the words from the first to the last - 1."""
    from equifactor.decoding import BinarySymmetricChannel, gaussian_channel, word_error_rates
    from equifactor.generators.ldpc import LdpcCode
    from equifactor.kernels.pointers import row_of

    code = LdpcCode.of_edges(row_of(model.detector_ptr), model.detectors, model.num_errors)
    if asked.ebn0 is not None:
        channel: Any = gaussian_channel(asked.ebn0, code.dimension / code.n)
    else:
        assert asked.prior is not None
        channel = BinarySymmetricChannel(flip=asked.prior)
    found = next(
        word_error_rates(
            code, [channel], [asked.method or "sum-product"], words=span[1] - span[0], first=span[0],
            seed=asked.seed, time_limit=time_limit, progress=True,
        )
    )  # fmt: skip
    return {
        "method": found.method, "shots": found.words, "errors": found.word_errors, "bit_errors": found.bit_errors,
        "gaps": None, "n": found.n, "converged": found.converged, "iterations": found.iterations,
        "seconds": found.seconds, "proven": None, "interrupted": found.interrupted, "undecided": list(found.undecided),
    }  # fmt: skip


def _text(row: dict[str, Any]) -> str:
    """Return the lines that are printed."""
    from equifactor.decoding.error_sampling import counted_text
    from equifactor.decoding.iteration_spread import spread_of_counts, spread_text
    from equifactor.decoding.post_selection import curve_of_counts

    done, one = row["shots"], "word" if "n" in row else "shot"
    if not done:
        return f"no {one} was decoded"
    undecided = len(row["undecided"])
    rate = counted_text(row["errors"], done, undecided, f"{one}s")
    if one == "word":
        bits = row["n"] * done
        least = f"{'at least ' if undecided else ''}{row['bit_errors'] / bits:.3g}"
        first = f"word error rate {rate}, bit error rate {least} ({row['bit_errors']} of {bits})"
    else:
        first = f"logical error rate {rate}"
    decided = max(1, done - undecided)
    speed = f"{(done - undecided) / row['seconds']:.4g} {one}s/s, " if row["seconds"] else ""
    proven = "" if row["proven"] is None else f", {row['proven'] / decided:.2%} proven"
    ms = 1e3 * row["seconds"] / decided
    counts = row.get("iteration_counts") or []
    mean = row["iterations"] / decided
    if sum(counts) == decided:
        spread = spread_text(mean, spread_of_counts(counts), ms, one)
    else:
        spread = f"{mean:.4g} iterations per {one}, {ms:.3g} ms per {one}"
    advice = "".join(f"\n{sentence}" for sentence in _advice(row, done - undecided))
    curve = f"\n{curve_of_counts(row['gaps'])}" if row.get("gaps") else ""
    return (
        f"{first} by {row['method']}\n{speed}{row['converged'] / decided:.2%} converged{proven}, "
        f"{spread}{curve}{advice}"
    )


def _advice(row: dict[str, Any], decided: int) -> list[str]:
    """Return sentences for a decoder that does not suit the code."""
    found, one = [], "word" if "n" in row else "shot"
    if row["converged"] < _RARELY * decided:
        found.append(
            f"The decoder explains only {row['converged'] / decided:.0%} of the {one}s. Try --method pooled or bp-osd, "
            "which explain more."
        )
    missed = row.get("missed")
    if missed is not None and missed >= _MISSED * max(row["errors"], 1) and row["errors"] >= _FEW:
        found.append(
            f"In {missed} of {row['errors']} wrong shots the true errors are likelier than those found: a better "
            "decoder finds them. With this one the rate may not fall with the distance of the code. Try --method "
            "pooled or more solutions."
        )
    return found


def _read_row(path: str, asked: SampleRequest) -> dict[str, Any]:
    """Read the JSON object that an earlier run has written; raise `OptionError` if that run counted something else."""
    try:
        from equifactor.decoding.post_selection import STEPS

        row = json.loads(Path(path).read_text(encoding="utf-8"))
        same = {name: row[name] for name in ("code", "basis", "prior", "ebn0", "seed", "method")}
        undecided, counts, gaps = row.get("undecided", []), row.get("iteration_counts"), row.get("gaps")
        sums = [row[name] for name in _SUMS if name != "seconds" and row.get(name) is not None]
        gap_counts = [] if gaps is None else [gaps["shots"], gaps["errors"]]
        lists = [sums, undecided, [] if counts is None else counts, *gap_counts]
        if not all(type(own) is list and all(type(n) is int and 0 <= n < 2**63 for n in own) for own in lists):
            raise TypeError
        seconds = row.get("seconds", 0.0)
        if type(seconds) not in (int, float) or not 0.0 <= seconds < math.inf or row["errors"] > row["shots"]:
            raise ValueError
        if any(len(own) != STEPS + 1 for own in gap_counts):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise FormatError(
            f"{path}: expected the JSON object that `equifactor decode --sample N --json -o FILE` writes. It cannot be "
            "continued."
        ) from None
    wanted = {**asdict(asked), "method": asked.method or row["method"]}
    for name in ("code", "basis", "prior", "ebn0", "seed", "method"):
        if same[name] != wanted[name]:
            raise OptionError(
                f"{path}: the earlier run had {name} {same[name]}, and this run has {wanted[name]}. "
                "Write to another file."
            )
    return dict(row)
