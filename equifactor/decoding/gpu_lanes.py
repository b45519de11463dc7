"""The data for decoding on a GPU: the state of the lanes, the memories of the legs, and the waiting shots."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from equifactor.base.typing import FloatArray, IntArray
    from equifactor.decoding.gpu_engine import GpuEngine
    from equifactor.decoding.methods import DecodingMethod
    from equifactor.decoding.shot_store import ShotStore


@dataclass(eq=False)
class GpuLanes:
    """The state of B lanes, in rows of B numbers."""

    ratio: torch.Tensor  # [V] channel log ratios of all shots, or [V, B]
    before: torch.Tensor  # [V, B] posteriors
    message: torch.Tensor  # [E, B] from checks to bits by sum-product, or [0, B]
    value: torch.Tensor  # [2M, B] the two answers of each check by min-sum, or [0, B]
    place: torch.Tensor  # [M, B] the slot of the bit that gets the second answer
    sign: torch.Tensor  # [W, B] words of 32 bits: 1 where the message of a bit to its check was negative
    decided: torch.Tensor  # [V, B] bytes: 1 for a negative posterior
    best: torch.Tensor  # [V, B] bytes: the lightest errors found so far that meet the syndrome
    syndrome: torch.Tensor  # [M, B] bytes
    odd: torch.Tensor  # [M, B] bytes: the checks that are not met, for networks, or [0, B]
    gamma: torch.Tensor  # [V, B] memories that a network has chosen, or [0, B]
    shot: torch.Tensor  # [B] number of the shot, -1 for an empty lane
    finished: torch.Tensor  # [B] 1 for an empty lane or a finished shot
    leg: torch.Tensor  # [B] number of the leg, from 0
    iteration: torch.Tensor  # [B] iterations of the leg
    total: torch.Tensor  # [B] iterations of the shot
    found: torch.Tensor  # [B] number of legs that met the syndrome
    begins: torch.Tensor  # [B] LEG or ARRIVED of `gpu_kernels` where a leg begins without old messages, otherwise 0
    unmet: torch.Tensor  # [B] 1 if a check is not met
    event: torch.Tensor  # [B] GOES_ON, OVER or MET of `gpu_kernels`
    action: torch.Tensor  # [B] bits BETTER, AGAIN and AFRESH of `gpu_kernels`
    weight: torch.Tensor  # [B] weight of the errors decided, in units of 1 / FIXED
    best_weight: torch.Tensor  # [B] weight of `best`, in the same units

    @property
    def width(self) -> int:
        """B, the number of lanes."""
        return len(self.shot)

    def chosen(self, lanes: torch.Tensor) -> GpuLanes:
        """Return copies of some lanes, side by side."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        return GpuLanes(**{
            name: part if name == "ratio" and part.ndim == 1 else part.index_select(-1, lanes)
            for name, part in parts.items()
        })  # fmt: skip


def memories(method: DecodingMethod, num_bits: int) -> NDArray[np.float32]:
    """Return [V, 1 + legs] the memory of every bit in every leg, the same numbers as on the CPU."""
    drawn = method.low + (method.high - method.low) * draws(method, num_bits)
    return np.concatenate([np.full((num_bits, 1), method.memory), drawn], axis=1).astype(np.float32)


def draws(method: DecodingMethod, num_bits: int) -> FloatArray:
    """Return [V, legs] numbers drawn from [0, 1), the same as on the CPU."""
    leg = np.arange(1, method.legs + 1, dtype=np.uint64)
    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        key = np.uint64(method.seed) * golden + (leg << np.uint64(32)) + np.arange(num_bits, dtype=np.uint64)[:, None]
        z = key * golden + golden
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) / 2**53


class Arrivals:
    """The shots of a store that still wait for a lane. Shots that the channel alone explains are answered at once.

    A thread reads one chunk of shots ahead, while the GPU works. Use it as a context: leaving it ends the thread.
    """

    def __init__(self, engine: GpuEngine, store: ShotStore) -> None:
        self.engine, self.store, self.chunks = engine, store, store.chunks()
        self.shots: IntArray
        self.syndromes: NDArray[np.uint8]
        self.ratio: NDArray[np.float32]
        self.seen = 0  # The number of shots that have been read.
        self.taken = 0  # The number of the last shot that was put into a lane, plus 1.
        self.over = False
        self._reader = ThreadPoolExecutor(1)
        self._ahead = self._reader.submit(self._read)
        self._next_chunk()

    def __enter__(self) -> Arrivals:
        return self

    def __exit__(self, *exc: object) -> None:
        self._reader.shutdown()

    @property
    def begun(self) -> int:
        """The number of shots that no longer wait."""
        return self.seen - len(self.shots)

    def take(self, count: int) -> tuple[IntArray, NDArray[np.uint8], NDArray[np.float32]]:
        """Return numbers [n], syndromes [n, M] and log ratios ([n, V] or [1, V]) of 1 to `count` shots."""
        taken = self.shots[:count], self.syndromes[:count], self.ratio if len(self.ratio) == 1 else self.ratio[:count]
        self.taken = int(taken[0][-1]) + 1
        self.shots, self.syndromes = self.shots[count:], self.syndromes[count:]
        self.ratio = self.ratio if len(self.ratio) == 1 else self.ratio[count:]
        if len(self.shots) == 0:
            self._next_chunk()
        return taken

    def stop(self) -> None:
        """Let no further shot begin. Shots after the last shot in a lane do not count, even if they are answered."""
        self._ahead.exception()  # Waits for the thread, which answers shots as well.
        self.store.decoded[self.taken :] = False
        self.shots, self.seen, self.over = self.shots[:0], self.taken, True

    def _next_chunk(self) -> None:
        """Take chunks until a shot waits."""
        self.shots = np.zeros(0, np.int64)
        while len(self.shots) == 0:
            chunk = self._ahead.result()
            if chunk is None:
                self.over = True
                return
            self._ahead = self._reader.submit(self._read)
            self.seen, self.shots, self.syndromes, self.ratio = chunk

    def _read(self) -> tuple[int, IntArray, NDArray[np.uint8], NDArray[np.float32]] | None:
        """Return the end of the next chunk, and numbers, syndromes and log ratios of its shots, or None at the end."""
        chunk = next(self.chunks, None)
        if chunk is None:
            return None
        p, (first, packed, ratio, _) = self.engine.problem, chunk
        shots = np.arange(first, first + len(packed))
        syndromes = np.unpackbits(packed, axis=1, bitorder="little", count=p.num_checks)
        if self.store.ratios is None:
            likely = ratio[0] < 0
            parity = np.add.reduceat(likely[p.bit_of_edge].astype(np.uint8), p.check_ptr[:-1]) % 2
            trivial = (syndromes == parity).all(axis=1)
            self.engine.answer_trivial(self.store, shots[trivial], likely)
            shots, syndromes = shots[~trivial], syndromes[~trivial]
        return first + len(packed), shots, syndromes, ratio
