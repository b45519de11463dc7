"""The colours survive colour blindness and greyscale, and a solver looks the same in every picture."""

from __future__ import annotations

import numpy as np
import pytest

from equifactor.show.palette import DARK, LIGHT, MARKERS, SOLVERS, style, style_numbers, styles_of
from equifactor.solving.registry import solver_names

# Colours as seen with a kind of colour blindness, in linear RGB: Machado, Oliveira and Fernandes, 2009, severity 1.
SEEN_WITH = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
# The steps from linear RGB to OKLab (Björn Ottosson, 2020), where distances are differences that people see.
TO_CONES = [[0.4122215, 0.5363325, 0.0514460], [0.2119035, 0.6806995, 0.1073970], [0.0883025, 0.2817188, 0.6299787]]
TO_LAB = [[0.2104543, 0.7936178, -0.0040720], [1.9779985, -2.4285922, 0.4505937], [0.0259040, 0.7827718, -0.8086758]]


def linear(colours: tuple[str, ...]) -> np.ndarray:
    parts = np.array([[int(c[k : k + 2], 16) for k in (1, 3, 5)] for c in colours]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def oklab(rgb: np.ndarray) -> np.ndarray:
    return np.cbrt(np.clip(rgb, 0, 1) @ np.transpose(TO_CONES)) @ np.transpose(TO_LAB)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("eyes", SEEN_WITH)
def test_colours_differ_for_everybody(colours: tuple[str, ...], eyes: str) -> None:
    lab = oklab(linear(colours) @ np.transpose(SEEN_WITH[eyes]))
    apart = np.linalg.norm(lab[:, None] - lab[None], axis=2) + 9 * np.eye(len(lab))
    assert apart.min() > 0.09


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_the_first_six_colours_differ_in_greyscale(colours: tuple[str, ...]) -> None:
    assert np.diff(np.sort(oklab(linear(colours))[:6, 0])).min() > 0.05


@pytest.mark.parametrize(("colours", "paper"), [(LIGHT, "#ffffff"), (LIGHT, "#faf9f6"), (DARK, "#1a1d23")])
def test_colours_stand_out_from_the_background(colours: tuple[str, ...], paper: str) -> None:
    light = linear((*colours, paper)) @ (0.2126, 0.7152, 0.0722) + 0.05
    assert (np.maximum(light[:-1], light[-1]) / np.minimum(light[:-1], light[-1])).min() > 2.9


def test_a_solver_looks_the_same_in_every_picture() -> None:
    assert styles_of(["exact", "bp"])["bp"] == styles_of(["bp", "trw", "fe-net"])["bp"] == style(SOLVERS["bp"])
    assert styles_of(["mine(steps=3)"]) == styles_of(["mine(steps=3)", "exact"][:1])
    assert len({style_numbers([name])[name] for name in ("exact", "bp", "bp(damping=0.5)", "trw", "meanfield")}) == 5


def test_the_order_of_solvers_does_not_change_their_styles() -> None:
    solvers = ["bp, 20 s", "auto, 1 s", "gibbs", "mine(steps=3)", "blocks", "fe-nbp", "other", "trw"]
    for titles in (solvers, solvers[::-1], ["auto, 5 s", *solvers]):
        numbers = style_numbers(titles)
        assert len(set(numbers.values())) == len(titles)
        for title, solver in (("bp, 20 s", "bp"), *((name, name) for name in ("gibbs", "blocks", "fe-nbp", "trw"))):
            assert numbers[title] == SOLVERS[solver]
    named = [number for solver, number in SOLVERS.items() if solver in solver_names() or solver.startswith("bp(")]
    assert len(set(named)) == len(named)


def test_no_two_curves_of_a_picture_look_alike() -> None:
    titles = [f"solver {n}" for n in range(24)]
    styles = styles_of(titles)
    assert len(set(styles.values())) == 24
    assert len({s.colour for s in list(styles.values())[:8]}) == len({s.marker for s in list(styles.values())[:8]}) == 8
    assert len(set(MARKERS)) == len(LIGHT) == len(DARK)
