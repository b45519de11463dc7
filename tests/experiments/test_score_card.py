"""The score card beside the competition's board."""

from __future__ import annotations

import math

import pytest

from experiments.score_card import board_score, read_board, score_card

BOARD = """task,problem,best_log10_value,trivial_solver_log10,best_score_20s
MPE,a,10.0,6.0,90.0
MPE,a,10.0,2.0,80.0
PR,b,1.0,0.0,1.0
MPE,c,10.0,,50.0
"""


def test_the_board_scores_by_its_own_trivial_answer() -> None:
    board = read_board(BOARD.splitlines())
    assert list(board) == ["a"]
    ten = math.log(10)
    row = {"instance": "a", "reference": 10 * ten, "log_score": 9 * ten}
    assert board_score(row, board["a"]) == pytest.approx(75.0)
    assert board_score({**row, "log_score": "-inf"}, board["a"]) == 0.0
    assert board_score({**row, "reference": 11 * ten}, board["a"]) is None


def test_a_line_per_collection_and_one_for_all() -> None:
    ten = math.log(10)
    row = {
        "instance": "a", "collection": "Grids", "reference": 10 * ten, "log_score": 10 * ten, "score": 100.0,
        "map_error": 0.0, "error": 0.0, "proven": True, "seconds": 2.0, "zero_probability": False,
    }  # fmt: skip
    other = {**row, "instance": "x", "collection": "DBN", "log_score": "-inf", "map_error": "inf", "score": 0.0}
    other |= {"error": "inf", "proven": False, "zero_probability": True}
    lines = score_card([row, other], read_board(BOARD.splitlines())).splitlines()
    assert lines[2] == "| Grids | 1 | 100.00 | 0.00000 | 0 | 1 | 1 | 2.00 | 2.0 | 1 | 100.00 | 90.00 |"
    assert lines[3].startswith("| DBN | 1 | 0.00 | nan | 1 | 0 | 0 |")
    assert lines[4].startswith("| all | 2 | 50.00 | 0.00000 | 1 |")
