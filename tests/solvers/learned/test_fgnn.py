from __future__ import annotations

import pytest
import torch

from equifactor.base.errors import ModelError, OptionError
from equifactor.factors import tensors
from equifactor.generators import random_graph
from equifactor.solvers import compile
from equifactor.solvers.learned.fgnn import _aggregate
from equifactor.solvers.learned.network import build


def test_aggregators() -> None:
    values, index = torch.tensor([[1.0], [3.0], [2.0]]), torch.tensor([0, 0, 2])
    assert _aggregate(values, index, 3, "max").tolist() == [[3.0], [0.0], [2.0]]
    assert _aggregate(values, index, 3, "sum").tolist() == [[4.0], [0.0], [2.0]]
    soft = torch.logsumexp(torch.tensor([3.0, 9.0]), 0).item() / 3
    assert _aggregate(values, index, 3, "lse").flatten().tolist() == pytest.approx([soft, 0.0, 2.0])


def test_larger_factors_need_a_larger_arity() -> None:
    flat = compile(random_graph(6, 4, arity=(2, 3), card=2, seed=1)).to(dtype="float64")
    with pytest.raises(
        ModelError, match=r"at most 2 variables, .* factor of 3\. Raise its setting arity, or use fe-net"
    ):
        build("fgnn")(flat)
    out = build("fgnn", {"arity": 3, "position": True}, seed=0).double()(flat)[-1]
    assert tensors.probabilities(flat, out).isfinite().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"widths": "5+x"}, "joined by +"), ({"widths": "5+8"}, "update=gru needs equal widths, found 5+8")],
)
def test_wrong_widths(settings: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message.replace("+", r"\+")):
        build("fgnn", settings)


def test_symmetries_follow_the_settings() -> None:
    assert build("fgnn").symmetries == {"global"}
    assert build("fgnn", {"orient": True}).symmetries == {"global", "local variable"}
    assert build("fgnn", {"orient": True, "position": True}).symmetries == {"global"}
    assert build("fgnn", {"orient": True, "arity": 3}).symmetries == {"global"}
