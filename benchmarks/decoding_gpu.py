"""Decoding on a GPU: iterations of min-sum with memory per second, and shots per second of whole decoders.

`python -m benchmarks.decoding_gpu CODE [METHOD ..]`, where CODE is a .npz, .dem or .stim file, such as the circuits of
the 144-qubit code; `--basis Z` uses the detectors of one basis of a circuit. For the first figures, all lanes are busy
with syndromes that have no solution. For the others, shots are drawn and decoded, and failures are counted; the times
include drawing and moving shots.
"""

from __future__ import annotations

import argparse
import time
from typing import Any


def steady_rate(engine: Any, width: int) -> float:
    """Return the shot-iterations per second with all lanes busy."""
    import torch

    from equifactor.decoding.gpu_engine import CapturedIterations
    from equifactor.decoding.gpu_kernels import ARRIVED

    lanes = engine.lanes(width, False)
    lanes.finished.zero_()
    lanes.syndrome.copy_(torch.randint(0, 2, lanes.syndrome.shape, device="cuda"))
    lanes.begins.fill_(ARRIVED.value)
    engine.iterate(lanes)
    run = CapturedIterations(engine, lanes)
    run()
    torch.cuda.synchronize()
    begin, rounds = time.perf_counter(), 20
    for _ in range(rounds):
        run()
    torch.cuda.synchronize()
    return rounds * run.iterations * width / (time.perf_counter() - begin)


def main() -> None:
    import torch

    from equifactor.decoding import Decoder

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("code")
    parser.add_argument("methods", nargs="*", default=["relay"])
    parser.add_argument("--shots", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--basis", choices=["X", "Z"])
    given = parser.parse_args()
    if not torch.cuda.is_available():
        print("Nothing was measured: this machine has no NVIDIA GPU.")
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {given.code}")
    for method in given.methods:
        decoder = Decoder(given.code, method=method, device="cuda", basis=given.basis)
        for width in (1024, 16384):
            rate = steady_rate(decoder.engine, width)
            print(f"{method}, {width} lanes busy: {rate / 1e6:.2f} M shot-iterations/s", flush=True)
        decoder.logical_error_rate(1000, seed=given.seed + 1)  # compiles
        begin = time.perf_counter()
        found = decoder.logical_error_rate(given.shots, seed=given.seed)
        seconds = time.perf_counter() - begin
        mean = found.result.iterations.mean()
        print(f"{method}: {found.shots / seconds:.0f} shots/s, {found}, {mean:.1f} iterations a shot", flush=True)


if __name__ == "__main__":
    main()
