"""The fused kernels of FE-Net compute what the torch path computes, forward and backward."""

import pytest
import torch
from triton_interpreter import needs_gpu, needs_interpreter, needs_triton, whole_numbers  # noqa: F401

import equifactor as ef
from equifactor.base.torch_device import SWITCH
from equifactor.generators import ising_grid
from equifactor.solvers.learned.fused.fused_step import fuse
from equifactor.solvers.learned.fused.fused_trial import kernels_work
from equifactor.solvers.learned.network import build
from equifactor.solvers.learned.wiring import wire

_FORWARD, _BACKWARD = 1e-5, 1e-4  # Largest difference of values, and of gradients relative to the largest gradient.


def potts_grid(states: int) -> ef.FactorGraph:
    """Return a random 2 x 3 grid of variables with a number of states, which has two squares."""
    rng = torch.Generator().manual_seed(states)
    scopes = [*((i,) for i in range(6)), (0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (4, 1), (2, 5)]
    tables = [torch.randn([states] * len(scope), generator=rng).numpy() for scope in scopes]
    return ef.FactorGraph([states] * 6, list(zip(scopes, tables, strict=True)), log=True)


def answers(network, flat, steps):
    """Return log beliefs at three numbers of steps, and the gradients of a fixed function of them."""
    network.zero_grad()
    out = torch.cat(network(flat, steps=steps, read_at=(1, 2)))
    weights = torch.linspace(-1.0, 1.0, len(out), device=out.device)
    (out.sin() * weights).sum().backward()
    return out.detach(), {name: p.grad.clone() for name, p in network.named_parameters()}


def compare(graphs, monkeypatch, device, steps=3, **settings):
    """Compare the two paths on a network with random weights."""
    network = build("fe-net", settings, seed=1).to(device)
    with torch.no_grad():
        for p in network.parameters():  # Layers that start at zero would hide errors.
            p.add_(0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())).to(device))
    flat = ef.solvers.compile(graphs).to(device, "float32")
    monkeypatch.setenv(SWITCH, "0")
    assert fuse(network, wire(flat, "sum")) is None
    values, gradients = answers(network, flat, steps)
    monkeypatch.setenv(SWITCH, "1")
    assert fuse(network, wire(flat, "sum")) is not None
    fused_values, fused_gradients = answers(network, flat, steps)
    torch.testing.assert_close(fused_values, values, rtol=_FORWARD, atol=_FORWARD)
    top = max(float(g.abs().max()) for g in gradients.values())
    for name, g in gradients.items():
        size = max(float(g.abs().max()), 1e-2 * top)
        assert float((fused_gradients[name] - g).abs().max()) < _BACKWARD * size, name


CASES = {
    "ising": ([*ising_grid(3, 3, seed=1, count=3)], {}),
    "temper": ([*ising_grid(2, 3, seed=2, count=2)], {"temper": True, "settle": 2.0, "steps": 1}),
    "no-loops": ([*ising_grid(2, 2, seed=3, count=2)], {"loops": False, "context": False, "channels": 5, "tables": 3}),
    "three-states": ([potts_grid(3)], {"hidden": 20}),
    "loops-in-torch": ([potts_grid(5)], {}),
}


@needs_triton
@needs_interpreter
@pytest.mark.parametrize("case", CASES)
def test_interpreter_agrees_with_torch(case, monkeypatch):
    """Run the kernels in Triton's interpreter, which needs no GPU."""
    graphs, settings = CASES[case]
    compare(graphs, monkeypatch, "cpu", **settings)


@needs_triton
@pytest.mark.cuda
@needs_gpu
@pytest.mark.parametrize("case", CASES)
def test_gpu_agrees_with_torch(case, monkeypatch):
    """Run the compiled kernels, with products as precise as float32 in both paths."""
    graphs, settings = CASES[case]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        compare(graphs, monkeypatch, "cuda", **settings)
    finally:
        torch.set_float32_matmul_precision(before)


def test_kernels_that_do_not_compile_leave_batches_to_torch():
    """The trial warns once and names the reason."""

    def make(*_):
        raise RuntimeError("no C compiler")

    network = build("fe-net", {"steps": 1}, seed=0)
    wiring = wire(ef.solvers.compile([*ising_grid(2, 2, seed=0, count=1)]).to("cpu", "float32"), "sum")
    with pytest.warns(RuntimeWarning, match="no C compiler"):
        assert not kernels_work(network, wiring, make)
    assert not kernels_work(network, wiring, make)  # without another warning


def test_other_batches_take_the_torch_path(monkeypatch):
    """Graphs with zeros, other semirings and tables of mixed sizes are left to torch."""
    monkeypatch.setattr("equifactor.solvers.learned.fused.fused_step.may_fuse", lambda device: True)
    network = build("fe-net", seed=0)
    mixed = [((0, 1), torch.zeros(2, 3).numpy()), ((0, 2), torch.zeros(2, 2).numpy())]
    pairs = ef.FactorGraph([2, 3, 2], mixed, log=True)
    flat = ef.solvers.compile([pairs]).to("cpu", "float32")
    assert fuse(network, wire(flat, "sum")) is None
    flat = ef.solvers.compile([*ising_grid(2, 2, seed=0, count=1)]).to("cpu", "float32")
    assert fuse(network, wire(flat, "max")) is None
    assert fuse(network.double(), wire(flat, "sum")) is None
