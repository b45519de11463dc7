"""Training runs learn, repeat bit for bit, resume after a stop, and fail with a clear error."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from equifactor import OptionError, SolveError, generators, solve, train
from equifactor.base.errors import FormatError, ModelError
from equifactor.base.status import Task
from equifactor.learned import load_model
from equifactor.learning.training import TrainingSettings
from equifactor.learning.training import training_loop as loop
from equifactor.learning.training.batches import Dataset
from equifactor.learning.training.losses import kl_per_graph
from equifactor.learning.training.objective import Objective, draw_steps
from equifactor.learning.training.trainer import _sorted_settings
from equifactor.solvers import parse_solver
from equifactor.solvers.learned.network import NetworkState, build, network_kinds
from equifactor.solvers.learned.wiring import wire

SMALL = {"epochs": 3, "batch_size": 10, "steps": 4, "hidden": 16}
DATA = "ising(3x3, n=40)"


def weights_of(network: torch.nn.Module) -> list[np.ndarray]:
    return [p.detach().cpu().numpy().copy() for p in network.parameters()]


def same(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(weights_of(a), weights_of(b), strict=True))


@pytest.mark.parametrize("task", ["MAR", pytest.param("MAP", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", sorted(network_kinds()))
def test_every_kind_learns_and_every_layer_moves(kind: str, task: str, tmp_path) -> None:
    out = tmp_path / "m.safetensors"
    done = train(kind, "asymmetric(3x3, n=60)", task, out, epochs=6, batch_size=10, steps=4, lr=5e-3, patience=0)
    measure = "kl" if task == "MAR" else "error"
    assert done.metrics[measure] <= done.history[0][measure]
    losses = [h["loss"] for h in done.history[1:]]
    assert min(losses[1:]) < losses[0]
    # The weights of the last epoch, because the best weights may be the starting weights.
    last = torch.load(out.with_suffix(".checkpoint"), weights_only=True)["network"]
    still = [n for n, p in build(kind, {"steps": 4}, seed=0).named_parameters() if torch.equal(p, last[n])]
    assert not still


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    first, again = (train("fe-net", DATA, vary_steps=True, losses_at=2, **SMALL) for _ in range(2))
    assert same(first.network, again.network)
    assert not same(first.network, train("fe-net", DATA, seed=1, **SMALL).network)


def test_a_stopped_run_resumes_to_the_same_result(tmp_path, monkeypatch) -> None:
    whole = train("fe-nbp", DATA, out=tmp_path / "whole.safetensors", **SMALL)
    out = tmp_path / "cut.safetensors"
    step, count = loop.Trainer._gradient_step, 0

    def stop_in_the_second_epoch(self, *args):
        nonlocal count
        count += 1
        if count == 6:
            self.clock.interrupted = True
        return step(self, *args)

    monkeypatch.setattr(loop.Trainer, "_gradient_step", stop_in_the_second_epoch)
    cut = train("fe-nbp", DATA, out=out, **SMALL)
    assert not cut.finished
    assert out.is_file()  # the best weights so far
    monkeypatch.setattr(loop.Trainer, "_gradient_step", step)
    resumed = train("fe-nbp", DATA, out=out, resume=True, **SMALL)
    assert resumed.finished
    assert same(whole.network, resumed.network)
    without_time = [{k: v for k, v in h.items() if k not in ("seconds", "graphs_per_second")} for h in whole.history]
    lines = [json.loads(line) for line in (tmp_path / "cut.jsonl").read_text().splitlines()]
    assert [{k: v for k, v in h.items() if k not in ("seconds", "graphs_per_second")} for h in lines] == without_time
    with pytest.raises(OptionError, match=r"lr was 0\.002 and is 0\.5"):
        train("fe-nbp", DATA, out=out, resume=True, lr=0.5, **SMALL)


def test_an_exception_of_the_callers_function_passes_through(tmp_path) -> None:
    error = MemoryError("mine")

    def stop(done: int, total: int | None, note: str) -> None:
        raise error

    with pytest.raises(MemoryError, match="mine") as raised:
        train("fe-nbp", DATA, out=tmp_path / "m.safetensors", progress=stop, **SMALL)
    assert raised.value is error


def test_resume_without_a_checkpoint_and_with_a_broken_one(tmp_path) -> None:
    out = tmp_path / "m.safetensors"
    with pytest.raises(OptionError, match="no checkpoint to resume from"):
        train("fe-nbp", DATA, out=out, resume=True, **SMALL)
    out.with_suffix(".checkpoint").write_bytes(b"half a file")
    with pytest.raises(Exception, match="not a readable checkpoint"):
        train("fe-nbp", DATA, out=out, resume=True, **SMALL)


def test_a_model_file_or_checkpoint_is_replaced_only_on_request(tmp_path) -> None:
    out = tmp_path / "m.safetensors"
    for made in (out, out.with_suffix(".checkpoint")):
        made.write_bytes(b"days of work")
        with pytest.raises(OptionError, match=rf"{made.name}: this file exists\. Pass resume=True .* overwrite=True"):
            train("fe-nbp", DATA, out=out, **SMALL)
        assert made.read_bytes() == b"days of work"
        made.unlink()
    out.write_bytes(b"days of work")
    done = train("fe-nbp", DATA, out=out, overwrite=True, **SMALL)
    assert same(load_model(out)[0], done.network)


def test_a_trained_file_is_a_solver(tmp_path) -> None:
    out = tmp_path / "mine.safetensors"
    done = train("fe-net", DATA, out=out, **SMALL)
    network, card = load_model(out)
    assert same(network, done.network)
    assert (card.task, card.kind, card.seed) == ("MAR", "fe-net", 0)
    assert card.metrics["kl"] == done.metrics["kl"]
    graph = generators.ising_grid(3, 3, seed=99)
    result = solve(graph, "MAR", str(out))
    assert result.solver == str(parse_solver(str(out)))
    assert result.iterations == 4


def test_a_loss_that_is_not_finite_names_the_graphs_and_keeps_the_weights(tmp_path, monkeypatch) -> None:
    out = tmp_path / "m.safetensors"
    forward, count = loop.Objective.forward, 0

    def broken(self, *args):
        nonlocal count
        count += 1
        loss = forward(self, *args)
        return loss * float("nan") if count == 3 else loss

    monkeypatch.setattr(loop.Objective, "forward", broken)
    with pytest.raises(SolveError, match=r"not finite in epoch 1, on a batch of ising-3x3-seed0.* and 5 more"):
        train("fe-nbp", DATA, out=out, **SMALL)
    network, _ = load_model(out)
    assert all(np.isfinite(w).all() for w in weights_of(network))


def test_weights_of_graphs_change_what_is_learned() -> None:
    graphs = generators.ising_grid(3, 3, count=20, seed=0)
    plain = train("fe-nbp", graphs, **SMALL)
    even = train("fe-nbp", graphs, weights=[2.0] * 20, **SMALL)
    uneven = train("fe-nbp", graphs, weights=[1.0] * 10 + [0.0] * 10, **SMALL)
    for a, b in zip(weights_of(plain.network), weights_of(even.network), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert not same(plain.network, uneven.network)


def test_validation_data_as_a_share_a_text_or_graphs() -> None:
    held = generators.ising_grid(3, 3, count=3, seed=5)
    share, text, graphs, one = (
        train("fe-nbp", DATA, validation=v, **SMALL) for v in (0.2, ["ising(2x2, n=2)"], iter(held), held[0])
    )
    assert share.metrics == train("fe-nbp", DATA, validation="0.2", **SMALL).metrics
    assert len({d.metrics["kl"] for d in (share, text, graphs, one)}) == 4


def test_validation_graphs_that_are_training_graphs_are_reported(caplog) -> None:
    train("fe-nbp", DATA, validation="ising(3x3, n=5)", **SMALL)
    train("fe-nbp", DATA, **SMALL)
    train("fe-nbp", DATA, validation=0, **SMALL)  # The user asked for it.
    assert not caplog.messages
    graphs = generators.ising_grid(3, 3, count=10, seed=0)
    train("fe-nbp", graphs, validation=graphs[:3], **SMALL)
    assert caplog.messages == [
        "3 of 3 validation graphs are also training graphs. The validation measures will be too optimistic."
    ]


def test_resume_needs_the_same_graphs(tmp_path) -> None:
    out = tmp_path / "m.safetensors"
    train("fe-nbp", generators.ising_grid(3, 3, count=20, seed=0), out=out, **SMALL)
    train("fe-nbp", generators.ising_grid(3, 3, count=20, seed=0), out=out, resume=True, **SMALL)
    with pytest.raises(OptionError, match="belongs to another run: contents"):
        train("fe-nbp", generators.ising_grid(3, 3, count=20, seed=1), out=out, resume=True, **SMALL)


def test_a_checkpoint_of_a_gpu_is_resumed_on_a_cpu(tmp_path) -> None:
    out = tmp_path / "m.safetensors"
    whole = train("fe-nbp", DATA, **SMALL)
    train("fe-nbp", DATA, out=out, time_limit=0.0, **SMALL)
    path = out.with_suffix(".checkpoint")
    state = torch.load(path, weights_only=True)
    state["optimizer"]["param_groups"][0] |= {"capturable": True, "lr": torch.tensor(2e-3)}  # as captured steps need
    torch.save(state, path)
    assert same(train("fe-nbp", DATA, out=out, resume=True, **SMALL).network, whole.network)


def test_a_time_limit_before_training_is_a_sentence() -> None:
    with pytest.raises(SolveError, match=r"time limit passed before training, after .* of 1 of 40 graphs"):
        train("fe-nbp", DATA, "MAP", time_limit=0.0, **SMALL)


def test_a_checkpoint_that_cannot_be_written_is_a_sentence(tmp_path, monkeypatch) -> None:
    from equifactor.base import files

    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_write_atomically", full)
    with pytest.raises(FormatError, match="cannot write this file"):
        train("fe-nbp", DATA, out=tmp_path / "m.safetensors", **SMALL)


def test_early_stopping_keeps_the_best_weights() -> None:
    done = train("fe-nbp", DATA, epochs=50, patience=2, lr=0.5, schedule="constant", batch_size=10)
    assert len(done.history) < 51
    assert done.metrics["kl"] == min(h["kl"] for h in done.history)


def test_map_scores_improve_where_the_network_finds_better_ones(monkeypatch) -> None:
    from equifactor.learning.training import targets

    monkeypatch.setattr(targets, "_best_score", lambda graph: np.array([0.1]))  # a poor start, for every graph
    seen: list[list[float]] = []
    improve = loop.Trainer._improve_scores
    monkeypatch.setattr(
        loop.Trainer, "_improve_scores", lambda self: (improve(self), seen.append(self.progress.best_scores[:]))
    )
    train("fe-nbp", DATA, "MAP", **SMALL)
    assert min(seen[-1]) >= 0.1
    assert max(seen[-1]) > 0.1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "fe-nbb"}, "no kind of network named 'fe-nbb'"),
        ({"kind": "fe-nbp(hiden=3)"}, "fe-nbp has no option 'hiden'; did you mean hidden"),
        ({"kind": "fe-nbp(hidden=3"}, "Cannot read the kind of network 'fe-nbp.hidden=3'"),
        ({"kind": "fe-nbp(hidden=3, hidden=4)"}, "fe-nbp is given hidden twice"),
        ({"kind": generators.ising_grid(2, 2), "data": "MAR", "task": "fe-nbp"}, "the kind of network first"),
        ({"kind": DATA, "data": "MAR", "task": "fe-nbp"}, "the kind of network first"),
        ({"task": "PR"}, "trained for MAR or MAP"),
        ({"lr": -1.0}, "at least 0"),
        ({"rate": 1.0}, "Neither fe-nbp nor training has a setting 'rate'"),
        ({"kind": "fe-nbp(width=3)"}, "no option 'width'"),
        ({"network": {"steps": 3}}, r"keywords, or as text: fe-nbp\(steps=20\)"),
        ({"out": "model.pt"}, "must end in .safetensors"),
        ({"validation": "1.5"}, "a share of at least 0 and below 1"),
        ({"data": "ising(3x3, n=1)"}, "1 graphs are too few"),
        ({"resume": True}, "resume needs the model file"),
        ({"device": "tpu"}, "no device"),
        ({"loss": "uai"}, "loss uai is not for MAR"),
        ({"task": "MAP", "loss": "cross-entropy"}, "loss cross-entropy is not for MAP"),
        ({"data": [1, 2]}, "Training data must be a folder"),
        ({"data": [DATA, generators.ising_grid(2, 2)]}, "Training data must be a folder"),
        ({"weights": [-1.0] * 40}, "0 or more"),
        ({"weights": [0.0] * 40}, "at least one above 0"),
        ({"schedule": "time"}, "schedule=time needs a time_limit"),
        ({"schedule": "time", "time_limit": 9.0, "devices": 2}, "schedule=time is for one process"),
        ({"schedule": "time", "time_limit": 9.0, "resume": True}, "cannot be resumed"),
    ],
)
def test_mistakes_are_one_sentence(change: dict, words: str) -> None:
    call = {"kind": "fe-nbp", "data": DATA, **SMALL, **change}
    with pytest.raises(OptionError, match=words):
        train(**call)


def test_settings_of_the_network_in_the_text_or_as_keywords() -> None:
    small = {"epochs": 1, "batch_size": 10, "steps": 4}
    plain = train("fe-nbp(hidden=5, steps=4)", DATA, epochs=1, batch_size=10)
    assert plain.network.config.hidden == 5
    for text, more in (("fe-nbp(hidden=5)", {}), ("fe-nbp", {"hidden": 5}), ("fe-nbp(hidden=9)", {"hidden": 5})):
        assert same(train(text, DATA, **small, **more).network, plain.network)


def test_a_name_that_network_and_training_share_is_ambiguous(monkeypatch) -> None:
    from equifactor.solvers.learned import network

    names = network.setting_names
    monkeypatch.setattr(network, "setting_names", lambda kind: [*names(kind), "lr"])
    with pytest.raises(OptionError, match=r"lr is a setting of fe-nbp and of training\. Write fe-nbp\(lr=VALUE\)"):
        train("fe-nbp", DATA, lr=0.1)
    assert _sorted_settings("fe-nbp(lr=0.5)", {"lr": 0.1}) == ("fe-nbp", {"lr": 0.5}, {"lr": 0.1})


def test_the_rate_falls_over_the_time_limit() -> None:
    settings = TrainingSettings(lr=0.1, schedule="time", time_limit=10.0)
    rates = [settings.learning_rate(0, 100, seconds) for seconds in (0.0, 5.0, 10.0, 12.0)]
    assert rates == pytest.approx([0.1, 0.05, 0.0, 0.0])


def test_validation_counts_graphs_by_their_weights() -> None:
    graphs = [
        *generators.ising_grid(2, 2, coupling_std=0.1, count=10),
        *generators.ising_grid(2, 2, coupling_std=3, count=10),
    ]
    start = {}
    for name, weights in (("weak", [1.0] * 10 + [0.0] * 10), ("all", None), ("strong", [0.0] * 10 + [1.0] * 10)):
        start[name] = train("fe-nbp", graphs, weights=weights, validation="0.5", **SMALL).history[0]["kl"]
    assert start["weak"] < start["all"] < start["strong"]


def test_training_goes_on_from_a_file_with_the_same_weights(tmp_path) -> None:
    before = train("fe-nbp", DATA, out=tmp_path / "a.safetensors", **SMALL)
    other = {"steps": 8, "hidden": 16, "settle": 3.0}  # changes no weight
    after = train("fe-nbp", DATA, start=tmp_path / "a.safetensors", **{**SMALL, **other, "lr": 0.0})
    for p, q in zip(weights_of(before.network), weights_of(after.network), strict=True):
        np.testing.assert_array_equal(p, q)
    assert after.network.config.steps == 8


def test_a_network_of_two_states_says_so_before_training() -> None:
    with pytest.raises(ModelError, match="made for variables of 2 states"):
        train("fe-gnn", "potts(3x3, states=3, n=5)", epochs=3)


def test_steps_are_drawn_from_few_values_and_losses_spread_over_them() -> None:
    rng = np.random.default_rng(0)
    drawn = {draw_steps(TrainingSettings(vary_steps=True, losses_at=2), 10, rng) for _ in range(100)}
    assert {steps for steps, _ in drawn} == {5, 10, 20, 40}
    assert {(20, (10,)), (40, (30,))} <= drawn
    assert draw_steps(TrainingSettings(), 10, rng) == (10, ())


def test_steps_before_the_last_2t_are_run_and_pass_no_gradient() -> None:
    network = build("fe-nbp", {"steps": 2, "hidden": 4}, seed=0).double()
    objective = Objective(network, Task.MAR)
    data = Dataset(generators.ising_grid(2, 2, count=2), [np.full(8, 0.5)] * 2, device="cpu", dtype="float64")
    batch = data.batch(data.plans(2)[0])
    steps: list[bool] = []
    step = network.step

    def watched(state: NetworkState) -> NetworkState:
        steps.append(torch.is_grad_enabled())
        return step(state)

    network.step = watched  # type: ignore[method-assign]
    loss = objective(batch, 8, (6,))
    assert steps == [False] * 4 + [True] * 4
    with torch.no_grad():
        answers = [network.unroll(network.start(wire(batch.flat, "sum")), n)[-1] for n in (6, 8)]
        want = sum((kl_per_graph(batch.flat, a, batch.target) * batch.weight).sum() for a in answers) / 2
    assert loss.item() == pytest.approx(float(want), rel=1e-12)


@pytest.mark.slow
def test_two_processes_agree_with_one(tmp_path) -> None:
    # 36 graphs in batches of 7: shares differ in size, and the second process gets no graph of the last batch.
    script = tmp_path / "run.py"
    script.write_text(
        "import sys\nfrom equifactor import train\n"
        "if __name__ == '__main__':\n"
        "    train('fe-nbp', 'ising(3x3, n=40)', out=sys.argv[1], epochs=3, batch_size=7, dtype='float64',"
        " steps=4, hidden=16)\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    plain = [sys.executable, str(script), str(one)]
    several = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node",
        "2",
        str(script),
        str(two),
    ]
    for command in (plain, several):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-2000:]
    for a, b in zip(weights_of(load_model(one)[0]), weights_of(load_model(two)[0]), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)
