"""Decoding on a GPU: iterations of min-sum with memory per second, and shots per second of whole decoders.

`python -m benchmarks.decoding_gpu CODE [METHOD ..]`, where CODE is a .npz, .dem or .stim file, such as the circuits of
the 144-qubit code. For the first figure, all lanes are busy with syndromes that have no solution. For the other
figures, shots are drawn and decoded, and failures are counted; the times include drawing and moving shots.
"""

from __future__ import annotations

import argparse
import time


def steady_rate(code: str, width: int) -> float:
    """Return the shot-iterations per second of `memory` with all lanes busy."""
    import torch

    from equifactor.decoding import Decoder
    from equifactor.decoding.gpu_engine import CapturedIterations, GpuEngine

    engine = Decoder(code, method="memory", device="cuda").engine
    assert isinstance(engine, GpuEngine)
    lanes = engine.lanes(width, False)
    lanes.finished.zero_()
    lanes.syndrome.copy_(torch.randint(0, 2, lanes.syndrome.shape, device="cuda"))
    lanes.before.copy_(lanes.ratio[:, None].expand(-1, width))
    lanes.prior.copy_(lanes.before)
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
    given = parser.parse_args()
    if not torch.cuda.is_available():
        print("Nothing was measured: this machine has no NVIDIA GPU.")
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {given.code}")
    for width in (1024, 16384):
        print(f"memory, {width} lanes busy: {steady_rate(given.code, width) / 1e6:.2f} M shot-iterations/s", flush=True)
    for method in given.methods:
        decoder = Decoder(given.code, method=method, device="cuda")
        decoder.logical_error_rate(1000, seed=given.seed + 1)  # compiles
        begin = time.perf_counter()
        found = decoder.logical_error_rate(given.shots, seed=given.seed)
        seconds = time.perf_counter() - begin
        mean = found.result.iterations.mean()
        print(f"{method}: {found.shots / seconds:.0f} shots/s, {found}, {mean:.1f} iterations a shot", flush=True)


if __name__ == "__main__":
    main()
