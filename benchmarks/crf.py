"""One training step of a chain CRF, forward and backward, compared with pytorch-crf and with `CRF` on a graph.

    pip install pytorch-crf
    python -m benchmarks.crf                                      # 50 places, 10 states, batch 32
    python -m benchmarks.crf --length 100 --states 50 --batch 64

All steps run in turn in one process on one thread, on the same emissions, tags and mask. A figure is the median of all
repetitions, followed by the ratio to pytorch-crf. Likelihoods and gradients are compared first.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import equifactor as ef


def steps(batch: int, length: int, states: int) -> dict[str, Callable[[], tuple[Tensor, Tensor]]]:
    """Return the functions to compare. Each returns log likelihoods [B] and the gradient [B, T, d] in the emissions."""
    torch.manual_seed(0)
    emissions = torch.randn(batch, length, states, requires_grad=True)
    tags = torch.randint(0, states, (batch, length))
    mask = torch.ones(batch, length, dtype=torch.bool)
    chain = ef.ChainCRF(states)
    graph = ef.FactorGraph(
        [states] * length,
        [([t], np.ones(states)) for t in range(length)]
        + [([t, t + 1], np.ones((states, states))) for t in range(length - 1)],
    )
    crf = ef.CRF(graph)

    def run(likelihood: Callable[[], Tensor]) -> Callable[[], tuple[Tensor, Tensor]]:
        def step() -> tuple[Tensor, Tensor]:
            emissions.grad = None
            found = likelihood()
            (-found.sum()).backward()  # type: ignore[no-untyped-call]
            assert emissions.grad is not None
            return found.detach(), emissions.grad

        return step

    compared = {
        "ChainCRF": run(lambda: chain(emissions, tags, mask)),
        "CRF on the chain as a graph": run(lambda: crf(emissions, chain.transitions, states=tags)),
    }
    theirs = _pytorch_crf(states)
    if theirs is not None:
        compared["pytorch-crf"] = run(lambda: theirs(emissions, tags, mask=mask, reduction="none"))
    return compared


def _pytorch_crf(states: int) -> Any:
    try:
        module = importlib.import_module("torchcrf").CRF(states, batch_first=True)
    except ImportError:
        print("pytorch-crf is not installed: pip install pytorch-crf")
        return None
    for parameter in module.parameters():
        torch.nn.init.zeros_(parameter)
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--length", type=int, default=50)
    parser.add_argument("--states", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repetitions", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    compared = steps(options.batch, options.length, options.states)
    answers = {name: step() for name, step in compared.items()}
    for name, (value, gradient) in answers.items():
        torch.testing.assert_close(value, answers["ChainCRF"][0], msg=f"{name}: another likelihood")
        torch.testing.assert_close(gradient, answers["ChainCRF"][1], atol=1e-4, rtol=1e-4, msg=f"{name}: gradient")
    times: dict[str, list[float]] = {name: [] for name in compared}
    for _ in range(options.repetitions):
        for name, step in compared.items():
            start = time.perf_counter()
            step()
            times[name].append(1e3 * (time.perf_counter() - start))
    print(f"{options.batch} chains of {options.length} places and {options.states} states, forward and backward:")
    reference = statistics.median(times.get("pytorch-crf", [float("nan")]))
    for name, own in times.items():
        median = statistics.median(own)
        print(f"{name:<30}{median:>8.2f} ms (least {min(own):.2f}){median / reference:>8.2f} of pytorch-crf")


if __name__ == "__main__":
    main()
