"""`equifactor decode`: shots from files and shots that are drawn."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from equifactor.cli import decode_counts
from equifactor.decoding import Decoder, DecodingResult
from equifactor.decoding import decoder as decoder_module
from equifactor.decoding.shot_store import ShotStore

DEM = "error(0.1) D0 L0\nerror(0.1) D0 D1\nerror(0.1) D1\n"


@pytest.fixture
def code(tmp_path: Path) -> str:
    (tmp_path / "code.dem").write_text(DEM)
    return "code.dem"


def test_the_rate_of_drawn_shots(command, code: str) -> None:
    ran = command("decode", code, "--sample", "5000", "--seed", "1", "--method", "min-sum")
    assert ran.status == 0
    first, second = ran.out.splitlines()
    assert first.startswith("logical error rate 0.0")
    assert first.endswith("of 5000 shots) by min-sum")
    assert "shots/s" in second
    row = json.loads(command("decode", code, "--sample", "5000", "--seed", "1", "--method", "min-sum", "--json").out)
    assert row["shots"] == 5000
    assert abs(row["errors"] / 5000 - 0.0280) < 0.006  # two or three of the three errors, by enumeration
    assert f"({row['errors']} of 5000" in first


@pytest.mark.parametrize("kind", ["01", "b8"])
def test_shots_from_a_file(command, code: str, kind: str, tmp_path: Path) -> None:
    shots = np.array([[1, 0], [1, 1], [0, 1], [0, 0]], np.uint8)
    content = np.packbits(shots, axis=1, bitorder="little").tobytes() if kind == "b8" else b"10\n11\n01\n00\n"
    (tmp_path / f"shots.{kind}").write_bytes(content)
    ran = command("decode", code, f"shots.{kind}", "-o", "flips.01", "--method", "min-sum")
    assert ran.status == 0
    assert (tmp_path / "flips.01").read_text() == "1\n0\n0\n0\n"
    assert f"shots.{kind}: decoded 4 of 4 shots, 100.00% converged" in ran.err
    assert command("decode", code, f"shots.{kind}", "-o", "flips.b8").status == 0
    assert (tmp_path / "flips.b8").read_bytes() == b"\x01\x00\x00\x00"
    assert command("decode", code, f"shots.{kind}").out == "1\n0\n0\n0\n"


def test_wrong_use_is_one_sentence(command, code: str, tmp_path: Path) -> None:
    assert "--sample N" in command("decode", code).err
    (tmp_path / "shots.txt").write_text("10\n")
    assert "must be 01 or b8 or dets, found 'txt'" in command("decode", code, "shots.txt").err
    assert "found no suffix. Give the file such a suffix, or pass --out-format." in command(
        "decode", code, "shots.01", "-o", "flips"
    ).err  # fmt: skip
    (tmp_path / "shots.01").write_text("100\n")
    ran = command("decode", code, "shots.01")
    assert ran.status == 3
    assert "a line of 2 digits" in ran.err
    (tmp_path / "shots.01").write_text("12\n")
    assert "found '2'" in command("decode", code, "shots.01").err
    assert "choose from: bp-osd" in command("decode", code, "--sample", "5", "--method", "x").err
    (tmp_path / "bare.dem").write_text("error(0.1) D0\n")
    assert "no observables" in command("decode", "bare.dem", "--sample", "5").err


HAMMING = "7 3\n3 4\n1 1 2 1 2 2 3\n4 4 4\n1\n2\n1 2\n3\n1 3\n2 3\n1 2 3\n1 3 5 7\n2 3 6 7\n4 5 6 7\n"


@pytest.fixture
def hamming(tmp_path: Path) -> str:
    (tmp_path / "hamming.alist").write_text(HAMMING)
    return "hamming.alist"


def test_a_code_without_observables_writes_the_errors(command, hamming: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "shots.01").write_text("100\n000\n111\n")
    ran = command("decode", hamming, "shots.01", "--prior", "0.01", "--method", "optimal")
    assert ran.out == "1000000\n0000000\n0000001\n"
    assert "no observables" in ran.err
    (tmp_path / "shots.01").write_text("10\n11\n")
    assert command("decode", code, "shots.01", "-o", "flips.01", "--corrections", "errors.01").status == 0
    assert (tmp_path / "flips.01").read_text() == "1\n0\n"
    assert (tmp_path / "errors.01").read_text() == "100\n010\n"


def test_no_named_file_is_left_out_or_written_twice(command, hamming: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "shots.01").write_text("100\n")
    ran = command("decode", hamming, "shots.01", "--prior", "0.01", "-o", "flips.01", "--corrections", "errors.01")
    assert ran.status == 2
    assert "-o flips.01 has no flips to hold" in ran.err
    (tmp_path / "shots.01").write_text("10\n")
    before = (tmp_path / code).read_bytes()
    for files in (["-o", "./shots.01"], ["--corrections", "shots.01"], ["-o", f"./{code}", "--out-format", "01"]):
        ran = command("decode", code, "shots.01", *files)
        assert ran.status == 2
        assert "the same command reads this file" in ran.err
    assert command("decode", code, "--sample", "5", "-o", code).status == 2
    ran = command("decode", code, "shots.01", "-o", "a.01", "--corrections", "./a.01")
    assert "One file cannot hold two of" in ran.err
    assert (tmp_path / "shots.01").read_text() == "10\n"
    assert (tmp_path / code).read_bytes() == before


def test_bits_beyond_the_detectors_are_not_cut_off(command, code: str, tmp_path: Path) -> None:
    (tmp_path / "shots.b8").write_bytes(b"\x01\x06")  # Two detectors, and in the second shot an observable behind them.
    ran = command("decode", code, "shots.b8")
    assert ran.status == 3
    assert "shot 1 has a bit set beyond its 2 bits" in ran.err


def test_word_errors_of_an_alist_file(command, hamming: str) -> None:
    given = ("decode", hamming, "--sample", "1000", "--prior", "0.05", "--method", "optimal")
    flips = json.loads(command(*given, "--json").out)
    right = 0.95**7 + 7 * 0.05 * 0.95**6  # The code corrects one flip and no more.
    assert abs(flips["errors"] / 1000 - (1 - right)) < 0.02
    assert "by sum-product" in command("decode", hamming, "--sample", "5", "--prior", "0.05").out
    rates = [
        json.loads(command("decode", hamming, "--sample", "2000", "--ebn0", db, "--json").out)["errors"] for db in "16"
    ]
    assert rates[0] > 4 * rates[1] > 0
    assert "word error rate 0" in command("decode", hamming, "--sample", "500", "--ebn0", "3").out


def test_counts_are_resumed(command, code: str, hamming: str, tmp_path: Path) -> None:
    for given in ((code, "--method", "min-sum"), (hamming, "--prior", "0.05")):
        whole = json.loads(command("decode", *given, "--sample", "2500", "--json").out)
        assert command("decode", *given, "--sample", "700", "-o", "part.json").status == 0
        assert command("decode", *given, "--sample", "2500", "-o", "part.json", "--resume").status == 0
        both = json.loads((tmp_path / "part.json").read_text())
        assert all(both[name] == whole[name] for name in ("shots", "errors", "iterations", "converged"))
        assert "counted already" in command("decode", *given, "--sample", "2500", "-o", "part.json", "--resume").err
    assert "had code hamming.alist" in command("decode", code, "--sample", "9", "-o", "part.json", "--resume").err
    row = json.loads((tmp_path / "part.json").read_text())
    wrong: list[dict[str, object]] = [
        {"shots": "many"}, {"shots": 1.5}, {"shots": math.nan}, {"errors": None}, {"errors": -1}, {"errors": 10**30},
        {"gaps": {"shots": [1], "errors": [1]}}, {"iteration_counts": 1}, {"iteration_counts": ["x"]}, {"seconds": []},
    ]  # fmt: skip
    for damaged in ("[1]", "{", "[" * 100_000, *(json.dumps({**row, **fields}) for fields in wrong)):
        (tmp_path / "part.json").write_text(damaged)
        assert "cannot be continued" in command("decode", code, "--sample", "9", "-o", "part.json", "--resume").err


def test_no_other_method_is_advised_before_a_shot_is_decided() -> None:
    row = {
        "method": "relay", "shots": 16, "errors": 0, "iterations": 0, "converged": 0, "seconds": 2.0, "proven": None,
        "undecided": list(range(16)),
    }  # fmt: skip
    assert "0 of 16 shots, and 16 were undecided" in decode_counts._text(row)
    assert "explains only" not in decode_counts._text(row)
    assert "explains only" in decode_counts._text({**row, "undecided": [3]})


@pytest.mark.parametrize("sample", ["700", "900"])
def test_undecided_shots_are_decoded_by_a_run_that_is_resumed(command, code: str, tmp_path: Path, sample: str) -> None:
    given = ("decode", code, "--method", "min-sum")
    whole = json.loads(command(*given, "--sample", sample, "--json").out)
    assert command(*given, "--sample", "700", "-o", "part.json").status == 0
    row = json.loads((tmp_path / "part.json").read_text())
    assert row["undecided"] == []
    for number in (3, 10):  # As if these shots had been in flight at the time limit.
        one = Decoder(tmp_path / code, method="min-sum").logical_error_rate(1, first=number)
        row["errors"] -= one.errors
        row["iterations"] -= int(one.result.iterations.sum())
        row["converged"] -= int(one.result.converged.sum())
    row["undecided"] = [3, 10]
    (tmp_path / "part.json").write_text(json.dumps(row))
    ran = command(*given, "--sample", "700", "-o", "part.json", "--resume", "--time-limit", "0")
    assert ran.status == 1
    assert "2 of 700 shots were undecided at the time limit" in ran.err
    stopped = json.loads((tmp_path / "part.json").read_text())
    assert stopped["undecided"] == [3, 10]
    assert stopped["rate_bounds"] == [row["errors"] / 700, (row["errors"] + 2) / 700]
    assert command(*given, "--sample", sample, "-o", "part.json", "--resume").status == 0
    both = json.loads((tmp_path / "part.json").read_text())
    names = ("shots", "errors", "iterations", "converged", "undecided")
    assert [both[name] for name in names] == [whole[name] for name in names]
    (tmp_path / "part.json").write_text(json.dumps({**row, "undecided": ["3"]}))
    assert "cannot be continued" in command(*given, "--sample", "900", "-o", "part.json", "--resume").err


def test_rows_end_before_the_first_undecided_shot(
    command, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shots.01").write_text("10\n11\n01\n10\n")
    answered = decoder_module.answered

    def stopped(engine: object, store: ShotStore, *others: object) -> DecodingResult:
        result = answered(engine, store, *others)  # type: ignore[arg-type]
        store.abandon(np.array([2]))  # As if the third shot had been in flight at the time limit.
        return result

    monkeypatch.setattr(decoder_module, "answered", stopped)
    ran = command("decode", code, "shots.01", "-o", "flips.01")
    assert ran.status == 1
    assert "2 of 4 shots are not written, from the first undecided one on" in ran.err
    assert (tmp_path / "flips.01").read_text() == "1\n0\n"


def test_a_file_that_was_stopped_is_resumed(command, code: str, tmp_path: Path) -> None:
    (tmp_path / "shots.01").write_text("10\n11\n01\n10\n")
    ran = command("decode", code, "shots.01", "-o", "flips.01", "--time-limit", "0")
    assert ran.status == 1
    assert "4 of 4 shots were not decoded" in ran.err
    assert (tmp_path / "flips.01").read_text() == ""
    (tmp_path / "flips.01").write_text("1\n0\n")
    ran = command("decode", code, "shots.01", "-o", "flips.01", "--resume")
    assert "2 of 2 shots" in ran.err
    assert "after 2 shots" in ran.err
    assert (tmp_path / "flips.01").read_text() == "1\n0\n0\n1\n"
    whole = command("decode", code, "shots.01", "-o", "flips.01", "--resume")
    assert whole.err == "equifactor: shots.01: all 4 shots were decoded by an earlier run\n"
    (tmp_path / "flips.01").write_text("1\n" * 5)
    assert "cannot be continued" in command("decode", code, "shots.01", "-o", "flips.01", "--resume").err


def test_options_are_not_ignored(command, code: str, hamming: str) -> None:
    for given, said in (
        ((code, "--sample", "5", "--prior", "0.1"), "code.dem: the code states the probabilities"),
        ((code, "--sample", "5", "--ebn0", "1"), "code.dem: --ebn0 is the noise of words"),
        ((code, "--sample", "5", "--corrections", "a.01"), "--corrections a.01 has no meaning with --sample"),
        ((code, "--sample", "5", "--resume"), "Name the file with -o FILE"),
        ((code, "shots.01", "--json"), "--json has no meaning for shots from a file"),
        ((hamming, "--sample", "5", "--prior", "0.1", "--ebn0", "1"), "in place of --prior"),
        (("bb72", "--sample", "5", "--prior", "0.1", "--ebn0", "1"), "Leave it out"),
        ((code, "--sample", "5", "--time-limit", "nan"), "must be a number of seconds of at least 0, found nan"),
        ((hamming, "--sample", "5", "--prior", "1.5"), "'--prior'"),
    ):
        ran = command("decode", *given)
        assert ran.status == 2
        assert said in ran.err


def test_the_rate_goes_to_a_file(command, code: str, tmp_path: Path) -> None:
    assert command("decode", code, "--sample", "50", "-o", "rate.txt").out == ""
    assert (tmp_path / "rate.txt").read_text().startswith("logical error rate")


def test_shots_of_stim_with_one_basis(command, tmp_path: Path) -> None:
    stim = pytest.importorskip("stim")
    circuit = stim.Circuit.generated(
        "surface_code:rotated_memory_x", distance=3, rounds=3, after_clifford_depolarization=0.02
    )
    (tmp_path / "memory.stim").write_text(str(circuit))
    sampler = circuit.compile_detector_sampler(seed=1)
    for form in ("01", "b8"):
        sampler.sample_write(200, filepath=str(tmp_path / f"shots.{form}"), format=form)
        ran = command("decode", "memory.stim", f"shots.{form}", "--basis", "X", "-o", f"flips.{form}")
        assert ran.status == 0
    from equifactor.decoding import Decoder

    decoder = Decoder.from_dem(circuit, basis="X")
    kept = decoder.model.kept_detectors
    assert kept is not None
    assert 0 < len(kept) < circuit.num_detectors == decoder.model.num_all_detectors
    rows = (tmp_path / "shots.01").read_text().split()
    shots = np.array([list(map(int, row)) for row in rows])
    flips = decoder.decode(shots).flips
    assert (decoder.decode(shots[:, kept]).flips == flips).all()
    assert (decoder.decode(np.packbits(shots, axis=1, bitorder="little"), packed=True).flips == flips).all()
    assert (tmp_path / "flips.01").read_text().split() == [str(int(f)) for f in flips[:, 0]]
    (tmp_path / "kept.01").write_text("".join("".join(map(str, row)) + "\n" for row in shots[:, kept]))
    assert command("decode", "memory.stim", "kept.01", "--basis", "X").out == (tmp_path / "flips.01").read_text()


def test_what_a_code_needs_is_named_as_in_the_command(command) -> None:
    ran = command("decode", "bb72", "--sample", "100")
    assert ran.status == 2
    assert "--prior 0.01 on the command line" in ran.err
    ran = command("decode", "steane", "--sample", "100")
    assert ran.status == 3
    assert "codes are bb72, bb90, bb108, bb144, bb288, and suffixes of files are .dem" in ran.err


def test_the_curve_is_written_to_its_file(command, code: str, tmp_path: Path) -> None:
    assert command("decode", code, "--sample", "40", "--curve", "curve.csv").status == 0
    assert (tmp_path / "curve.csv").read_text().startswith("gap,set_aside,shots,errors,rate\n")


def test_files_for_curves_and_gaps_are_checked_before_decoding(
    command, code: str, hamming: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise AssertionError("shots were decoded before the arguments were checked")

    monkeypatch.setattr(Decoder, "decode", fail)
    monkeypatch.setattr(Decoder, "logical_error_rate", fail)
    (tmp_path / "s.01").write_text("10\n")
    drawn = ["decode", code, "--sample", "40"]
    for arguments, words in [
        ([*drawn, "--curve", "curve.xyz"], "must end in one of .csv, .png, .svg, .pdf"),
        ([*drawn, "--curve", "c.csv", "-o", "c.csv"], "differ from that of -o"),
        ([*drawn, "--curve", "c.csv", "--method", "relay"], "relay does not state gaps"),
        (["decode", hamming, "--sample", "9", "--prior", "0.1", "--curve", "c.csv"], "sum-product, the default"),
        (["decode", code, "s.01", "--gaps", "g", "--method", "relay"], "relay does not state gaps"),
        (["decode", code, "s.01", "--gaps", "s.01"], "the same command reads this file"),
        (["decode", code, "s.01", "--gaps", "-"], "cannot both be written to stdout"),
        (["decode", code, "s.01", "--gaps", "-", "--method", "class"], "cannot both be written to stdout"),
        (["decode", code, "s.01", "-o", "f.01", "--gaps", "./f.01"], "cannot hold two of"),
    ]:
        ran = command(*arguments)
        assert ran.status == 2, arguments
        assert words in ran.err.replace("\n", " ")
    assert (tmp_path / "s.01").read_text() == "10\n"
