"""Networks trained to decode words: batches of one graph with many words, gradient steps, decoded bits.

A check of six bits is a table of 64 entries, in which -30 replaces ln 0 for an odd number of ones. Decoders give the
same answers, and all numbers stay finite. Finite numbers need fewer and simpler operations on a GPU.
"""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equifactor import Task
from equifactor.base.typing import FloatArray, IntArray
from equifactor.factors.dense_graph import tables_at
from equifactor.generators import BurstyChannel, LdpcCode
from equifactor.graph import compile
from equifactor.learning.training.capture import CapturedSteps
from equifactor.learning.training.compiled_batches import Batch
from equifactor.learning.training.losses import kl_per_graph
from equifactor.learning.training.objective import Objective
from equifactor.learning.training.training_settings import TrainingSettings
from equifactor.solvers.learned.network import Network, build
from equifactor.solvers.learned.wiring import wire
from experiments.bursty_experiment import BurstyExperiment, LearnedLine
from experiments.bursty_words import training_words

_NEVER = -30.0  # The log value of a word that violates a check. Chosen by hand.
# The number of gradient steps between two checks of loss and clock, which wait for the device. Chosen by hand.
_CHECK_EVERY = 10
_AT_ONCE = {"cuda": 1000, "cpu": 100}  # The number of words that are decoded together, by device. Chosen by hand.


class WordBatch:
    """One compiled batch of `size` words of a code; `fill` sets the log ratios of their bits."""

    def __init__(self, code: LdpcCode, size: int, device: str) -> None:
        graph = code.graphs(np.zeros((1, code.n)), BurstyChannel())[0]
        graph = tables_at(graph, np.ones(graph.structure.num_factors, bool))
        flat = compile([graph] * size)
        word, entry = np.divmod(np.asarray(flat.entry_order), graph.structure.num_entries)
        of_bits = np.flatnonzero(entry < 2 * code.n)  # The factors of single bits come first in every graph.
        sent = flat.to(device, "float32")
        self.size, self.n = size, code.n
        self.flat = replace(sent, log_phi=sent.log_phi.clamp_min(_NEVER), has_zeros=False)
        self.place = torch.tensor(of_bits, device=device)
        self.source = torch.tensor((word * 2 * code.n + entry)[of_bits], device=device)

    def fill(self, words: Tensor) -> Batch:
        """Return the batch of words [size, 2, n]: log ratios, then the bits that were sent."""
        ratios, bits = words[:, 0], words[:, 1]
        pairs = torch.stack((0.5 * ratios, -0.5 * ratios), dim=2).reshape(-1)
        log_phi = self.flat.log_phi.index_copy(0, self.place, pairs.index_select(0, self.source))
        target = torch.stack((1.0 - bits, bits), dim=2).reshape(-1)
        return Batch(replace(self.flat, log_phi=log_phi), target, target.new_full((self.size,), 1.0 / self.size))


def as_tensor(ratios: FloatArray, bits: IntArray, device: str) -> Tensor:
    """Return words [N, 2, n] as `WordBatch.fill` takes them."""
    return torch.tensor(np.stack((ratios, bits), axis=1), dtype=torch.float32).to(device)


class WordReader:
    """A decoder that reads words with a network, many at a time."""

    def __init__(self, code: LdpcCode, device: str, most: int) -> None:
        self.batch = WordBatch(code, min(_AT_ONCE[torch.device(device).type], most), device)
        self.device = device

    def read(self, network: Network, ratios: FloatArray, factor: int = 1) -> list[IntArray]:
        """Return the bits [N, n] after T steps and, with a factor above 1, also after `factor` times T steps."""
        bits, _ = self._unrolled(network, ratios, np.zeros_like(ratios, dtype=np.int64), factor)
        return bits

    def judge(self, network: Network, ratios: FloatArray, bits: IntArray) -> tuple[float, float]:
        """Return the cross-entropy per bit and the share of wrong bits."""
        found, loss = self._unrolled(network, ratios, bits, 1)
        return loss, float(np.mean(found[0] != bits))

    @torch.no_grad()
    def _unrolled(
        self, network: Network, ratios: FloatArray, bits: IntArray, factor: int
    ) -> tuple[list[IntArray], float]:
        network.eval()
        total, steps = len(ratios), network.config.steps
        found: list[list[Tensor]] = [[] for _ in range(min(factor, 2))]
        losses = []
        for first in range(0, total, self.batch.size):
            rows = np.arange(first, first + self.batch.size) % total  # The first words fill up the last batch.
            batch = self.batch.fill(as_tensor(ratios[rows], bits[rows], self.device))
            answers = network.unroll(network.start(wire(batch.flat, "sum")), factor * steps, (steps,))
            for kept, answer in zip(found, answers, strict=True):
                log_b = answer.reshape(self.batch.size, -1, 2)
                kept.append(log_b[..., 1] > log_b[..., 0])
            losses.append(kl_per_graph(batch.flat, answers[0], batch.target))
        read = [torch.cat(kept)[:total].cpu().numpy().astype(np.int64) for kept in found]
        return read, float(torch.cat(losses)[:total].double().mean())


@dataclass(frozen=True)
class TrainedWords:
    """The result of one training: gradient steps, best validation loss and wrong bits, seconds per gradient step."""

    updates: int
    loss: float
    wrong_bits: float
    each: float


class WordTrainer:
    """A trainer of networks of one kind, one after another. A GPU captures the gradient step once for all networks."""

    def __init__(self, experiment: BurstyExperiment, line: LearnedLine, device: str) -> None:
        self.experiment, self.line, self.device = experiment, line, device
        self.code, plan = experiment.code(), experiment.training
        self.batch = WordBatch(self.code, plan.batch_size, device)
        self.reader = WordReader(self.code, device, plan.validation)
        self.validation = training_words(self.code, experiment, plan.validation, 0)
        self.network = build(line.kind, line.network, seed=0).to(device)
        self.network.accept(self.batch.flat)
        on_gpu = torch.device(device).type == "cuda"
        if on_gpu:
            torch.set_float32_matmul_precision("high")
        lr: Any = torch.tensor(1e-3, device=device) if on_gpu else 1e-3
        self.parameters = list(self.network.parameters())
        self.optimizer = torch.optim.AdamW(self.parameters, lr=lr, weight_decay=0.0, capturable=on_gpu, foreach=True)
        self.objective = Objective(self.network, Task.MAR)
        self.captured = CapturedSteps(self._gradient_step, self.optimizer) if on_gpu else None

    def train(self, lr: float, seed: int, updates: int, until: float | None = None) -> TrainedWords:
        """Train from the weights of a seed, and load the best weights by validation into the network.

        Stop after `updates` gradient steps, at the time `until`, or when the loss is not finite.
        """
        plan = self.experiment.training
        schedule = TrainingSettings(lr=lr, warmup=plan.warmup)
        self._restart(seed)
        best, best_wrong, weights = math.inf, math.nan, copy.deepcopy(self.network.state_dict())
        done, spent, start = 0, 0.0, time.perf_counter()
        for step in range(updates):
            words = as_tensor(*training_words(self.code, self.experiment, plan.batch_size, 1, seed, step), self.device)
            self._set_lr(schedule.learning_rate(step, updates))
            loss = self._step(words)
            done = step + 1
            if done % _CHECK_EVERY and done < updates:
                continue
            over = not math.isfinite(loss.item()) or (until is not None and time.time() > until)
            if done % plan.validate_every == 0 or done == updates or over:
                spent += time.perf_counter() - start
                value, wrong = self.reader.judge(self.network, *self.validation)
                if value < best:
                    best, best_wrong, weights = value, wrong, copy.deepcopy(self.network.state_dict())
                start = time.perf_counter()
            if over:
                break
        self.network.load_state_dict(weights)
        return TrainedWords(done, best, best_wrong, spent / max(1, done))

    def warm_up(self) -> None:
        """Run one gradient step, so that the time of later steps does not include one-time preparation.

        If the device cannot capture a gradient step, steps run operation by operation.
        """
        try:
            self.train(0.0, 0, 1)
        except RuntimeError:
            if self.captured is None:
                raise
            self.captured = None
            self.train(0.0, 0, 1)

    def _step(self, words: Tensor) -> Tensor:
        self.network.train()
        if self.captured is None:
            return self._gradient_step(self.batch.fill(words), self.network.config.steps, ())
        return self.captured(self.batch, words, self.network.config.steps, ())  # type: ignore[arg-type]

    def _gradient_step(self, batch: Batch, steps: int, read_at: tuple[int, ...]) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss: Tensor = self.objective(batch, steps, read_at)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        return loss.detach()

    def _set_lr(self, lr: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = group["lr"].fill_(lr) if isinstance(group["lr"], Tensor) else lr

    @torch.no_grad()
    def _restart(self, seed: int) -> None:
        """Set the weights of a seed and moments of zero. Both change in place, as a captured step keeps its tensors."""
        self.network.load_state_dict(build(self.line.kind, self.line.network, seed=seed).state_dict())
        for moments in self.optimizer.state.values():
            for value in moments.values():
                value.zero_()
