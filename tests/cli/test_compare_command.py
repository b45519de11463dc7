from __future__ import annotations

import json


def test_a_table(command, grid) -> None:
    ran = command("compare", "grid.uai", "-s", "exact", "-s", "bp(damping=0.5)", "-s", "mplp", "-e", "0=1")
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[0] == "MAR of grid, compared with exact"
    assert [line.split("  ")[0] for line in lines[3:6]] == ["exact", "bp(damping=0.5)", "mplp"]
    assert lines[-1] == "mplp: mplp cannot do MAR. It does MAP."


def test_json(command, grid) -> None:
    ran = command("compare", "grid.uai", "-s", "exact", "-s", "beam", "--task", "MAP", "--json")
    exact, beam = map(json.loads, ran.out.splitlines())
    assert exact["difference"] == 0 >= beam["difference"]
    assert list(exact) == [
        "solver",
        "status",
        "log score",
        "difference",
        "other states",
        "upper bound",
        "seconds",
        "message",
    ]


def test_wrong_usage(command, grid) -> None:
    assert command("compare", "grid.uai").status == 2
    for misspelt in ("bpp", "exact,bp", "bp(dmping=0.5)"):
        ran = command("compare", "grid.uai", "-s", "exact", "-s", misspelt)
        assert (ran.status, ran.out) == (2, "")
    assert command("compare", "grid.uai", "-s", "bp", "--task", "MIN").status == 2
    assert command("compare", "none.uai", "-s", "bp").status == 3
