"""A new kind of network is one file such as this one, and one line in the table of solvers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

import equifactor as ef
from equifactor.solvers.learned.network import network_kinds
from equifactor.solvers.learned.wiring import Wiring
from equifactor.solving import registry


@dataclass(frozen=True, kw_only=True)
class ToyConfig(ef.learned.NetworkConfig):
    """Settings of the toy network."""

    damping: float = ef.solvers.option(0.5, "damping of the untrained model", low=0.0, below=1.0)


class Toy(ef.learned.Network):
    """Belief propagation with one learned damping for all edges."""

    config_class = ToyConfig

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(config)
        self.keep = nn.Parameter(torch.tensor(config.damping))

    def start(self, wiring: Wiring) -> ef.learned.NetworkState:
        return ef.learned.NetworkState(wiring, wiring.uniform_messages())

    def step(self, state: ef.learned.NetworkState) -> ef.learned.NetworkState:
        wiring, old = state.wiring, state.msg_fv
        new = wiring.normalize(wiring.reduce(wiring.outgoing(old)))
        return ef.learned.NetworkState(wiring, wiring.damp(new, old, self.keep))


@dataclass(frozen=True, kw_only=True)
class ToySolver(ef.learned.NeuralBP):
    """Belief propagation with a learned damping."""

    network_class = Toy


@pytest.fixture
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    monkeypatch.setitem(registry.SOLVERS, "toy", f"{__name__}:ToySolver")
    ef.solvers.register("toy")(ToySolver)


@pytest.mark.usefixtures("_known")
def test_it_is_known_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from equifactor.cli import main

    graphs = ef.generators.ising_grid(3, 3, count=10, seed=0)
    out = tmp_path / "toy.safetensors"
    settings = {"epochs": 1, "steps_per_epoch": 2, "batch_size": 5, "lr": 0.02, "patience": 0}
    trained = ef.train("toy", graphs, "MAR", out, validation=0, steps=6, damping=0.9, **settings)
    assert trained.network.keep.item() != pytest.approx(0.9)

    network, card = ef.learned.load_model(out)
    assert isinstance(network, Toy)
    assert (card.kind, card.settings) == ("toy", {"steps": 6, "damping": 0.9})
    assert network_kinds()["toy"] is Toy
    assert "toy" in ef.solvers.solver_names()

    keep = network.keep.item()
    want = ef.solve(graphs, "MAR", f"bp(damping={keep}, iterations=6, tolerance=0, engine=torch)")
    for solver in (str(out), f"toy(weights={out})"):
        for got, answer in zip(ef.solve(graphs, "MAR", solver), want, strict=True):
            assert got.marginals is not None
            assert got.marginals.values == pytest.approx(answer.marginals.values, abs=1e-6)
    assert max(ef.symmetry.equivariance_error(str(out), graphs[0]).values()) < 1e-10

    assert main(["model", str(out)]) == 0
    assert "toy: Belief propagation with a learned damping." in capsys.readouterr().out
    with pytest.raises(ef.OptionError, match="toy: damping must be at least 0"):
        ef.train("toy(damping=-1)", graphs)
