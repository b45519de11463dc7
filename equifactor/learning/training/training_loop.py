"""The training loop: epochs of gradient steps, validation, early stopping, checkpoints."""

from __future__ import annotations

import copy
import logging
import math
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equifactor.base.clock import Clock
from equifactor.base.errors import SolveError
from equifactor.base.status import Task
from equifactor.learning.training.batches import Dataset
from equifactor.learning.training.capture import CapturedSteps
from equifactor.learning.training.compiled_batches import Batch, BatchPlan
from equifactor.learning.training.data_split import DataSplit
from equifactor.learning.training.objective import Objective, draw_steps, judged_steps
from equifactor.learning.training.processes import Processes
from equifactor.learning.training.run_files import RunFiles, TrainingProgress
from equifactor.learning.training.starting_weights import is_clear_gain
from equifactor.learning.training.training_settings import TrainingSettings
from equifactor.learning.training.validate import measures, scores
from equifactor.solvers.learned.network import Network
from equifactor.solving.solver import Progress

# The largest number of graphs in a validation batch, which also holds at most 20 training batches. Without gradients a
# step needs less memory. Chosen by hand.
_VALIDATION_BATCH = 1000
_log = logging.getLogger("equifactor")


class Trainer:
    """One training run. `progress` is its state. `best_weights` are the weights of the best validation so far."""

    def __init__(
        self,
        network: Network,
        split: DataSplit,
        task: Task,
        settings: TrainingSettings,
        processes: Processes,
        *,
        files: RunFiles | None = None,
        clock: Clock | None = None,
        report: Progress | None = None,
    ) -> None:
        """Set up the optimizer and the batches of the validation.

        Args:
            network: the network with its starting weights, on its device.
            split: the training and validation graphs.
            task: MAR or MAP.
            settings: the settings of the run.
            processes: the processes that share the run.
            files: where the log and the checkpoint are written; None to write no files.
            clock: the clock that may stop the run; None for a clock with the time limit of the settings.
            report: called with the progress; None for no reports.
        """
        data, validation = split.training, split.validation
        self.network, self.data, self.task, self.settings = network, data, task, settings
        self.processes, self.files = processes, files
        self.writes = files if processes.is_first else None  # Only the first process writes.
        self.clock, self.report = clock or Clock(settings.time_limit), report
        self.objective = Objective(network, task, settings.loss, settings.sharpen)
        self.parameters = list(network.parameters())
        on_gpu = torch.device(data.device).type == "cuda"
        # On a GPU the whole step is captured, so the learning rate must be on the GPU too.
        lr = torch.tensor(settings.lr, device=data.device) if on_gpu else settings.lr
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=lr, weight_decay=settings.weight_decay, capturable=on_gpu, foreach=True
        )
        self.captured = CapturedSteps(self._gradient_step, self.optimizer) if on_gpu and processes.world == 1 else None
        # On a GPU or with several processes a loss that is not finite raises after the epoch, to avoid waiting.
        self.stops_at_once = not on_gpu and processes.world == 1
        self.validation = validation
        self.judged_at_once = min(_VALIDATION_BATCH, 20 * settings.batch_size)
        size = min(self.judged_at_once, max(1, len(validation)))
        self.validation_batches = [validation.batch(p) for p in validation.plans(size)]
        self.batches_per_epoch = settings.steps_per_epoch or len(data.plans(settings.batch_size))
        self.progress = TrainingProgress(best_scores=_scores_of(data) if task is Task.MAP else [])
        self.start_weights = self.best_weights = copy.deepcopy(network.state_dict())
        self.saved_at = time.monotonic()
        self.graphs_seen = 0  # The number of graphs in the last epoch.
        if on_gpu:
            torch.set_float32_matmul_precision("high")  # TF32 is twice as fast and keeps three digits of products.
        if settings.compile:
            network.step = torch.compile(network.step, dynamic=False)  # type: ignore[method-assign]

    # ---- the run ----------------------------------------------------------------------------------------

    def run(self, *, cautious: bool = False) -> None:
        """Run epochs until the last epoch, or until patience or the clock ends the run; then load the best weights.

        A cautious run returns to its starting weights if the gain on the validation graphs is not clear.
        """
        p, settings = self.progress, self.settings
        if p.epoch == 0 and not p.history:
            self._judge(0, math.nan, 0.0)  # The starting weights count: training must improve on them.
        while p.epoch < settings.epochs and self._goes_on():
            before = self._snapshot()
            start = time.perf_counter()
            loss = self._epoch(p.epoch)
            if loss is None:
                # The clock stopped the epoch: go back to the last full epoch, so that resuming gives the same result.
                self._restore(before)
                break
            p.epoch += 1
            self._judge(p.epoch, loss, time.perf_counter() - start)
            if time.monotonic() - self.saved_at >= settings.checkpoint_every:
                self.save()
        self.save()
        if cautious and p.best_epoch:
            self._return_without_clear_gain()
        self.network.load_state_dict(self.best_weights)

    def _return_without_clear_gain(self) -> None:
        """Replace the best weights by the starting weights if validation has not clearly improved."""
        p = self.progress
        name = next(k for k in p.history[0] if k not in ("epoch", "loss"))
        before = p.history[0][name]
        if before is not None and not is_clear_gain(before, p.best, len(self.validation)):
            _log.warning(
                "The starting weights are kept: on %d held-out graphs %s fell from %.3g only to %.3g, which may be "
                "chance. Pass validation=0.2 to take the best epoch all the same.",
                len(self.validation), name, before, p.best,
            )  # fmt: skip
            self.best_weights, p.best_epoch, p.best = self.start_weights, 0, before

    def _epoch(self, epoch: int) -> float | None:
        """Run one epoch; return its mean loss, or None if the clock stopped it. Draws depend on seed and epoch only."""
        rng = np.random.default_rng([self.settings.seed, epoch])
        plans = self.data.endless(self.settings.batch_size, rng)
        todo = [next(plans) for _ in range(self.batches_per_epoch)]
        drawn = [draw_steps(self.settings, self.network.config.steps, rng) for _ in todo]
        self.graphs_seen = sum(len(plan.indices) for plan in todo)
        losses = torch.zeros(len(todo), device=self.data.device)
        self.network.train()
        rows = self._rows(todo) if self.captured else None
        for n, (plan, (steps, read_at)) in enumerate(zip(todo, drawn, strict=True)):
            done = epoch * len(todo) + n
            if self.processes.world == 1 and self.clock.stopped:
                return None
            self._set_lr(self.settings.learning_rate(done, self.settings.epochs * len(todo), self.clock.seconds))
            if self.captured and plan.compiled is not None and rows is not None:
                losses[n] = self.captured(plan.compiled, rows[n], steps, read_at)
            else:
                batch = self.data.batch(plan, self.processes.rank, self.processes.world)
                losses[n] = self._gradient_step(batch, steps, read_at, plan)
            if self.report and n % 10 == 9:
                self.report(done + 1, self.settings.epochs * len(todo), self._note())
        losses = self.processes.mean(losses)  # A loss that is not finite in one process stops all processes.
        self._check_finite(losses, todo)
        return float(losses.mean())

    def _gradient_step(
        self, batch: Batch, steps: int, read_at: tuple[int, ...], plan: BatchPlan | None = None
    ) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss: Tensor = self.objective(batch, steps, read_at)
        if self.stops_at_once and plan is not None and not math.isfinite(loss.item()):
            self._fail(plan)
        loss.backward()  # type: ignore[no-untyped-call]
        self.processes.average(self.parameters)
        if self.settings.clip:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)
        self.optimizer.step()
        return loss.detach()

    def _rows(self, plans: list[BatchPlan]) -> list[Tensor]:
        """Return the rows of all batches of an epoch, sent to the device at once."""
        pieces = [np.zeros(0, np.int64) if p.compiled is None else p.rows for p in plans]
        sent = torch.tensor(np.concatenate(pieces), device=self.data.device)
        return list(torch.split(sent, [len(p) for p in pieces]))

    def _set_lr(self, lr: float) -> None:
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr

    # ---- judging ----------------------------------------------------------------------------------------

    def _judge(self, epoch: int, loss: float, seconds: float) -> None:
        """Validate, keep the best weights and write one line of the log."""
        self.network.eval()
        at = judged_steps(self.settings, self.network.config.steps)
        each = [measures(self.network, self.validation_batches, self.task, n) for n in at]
        found = {name: sum(m[name] for m in each) / len(each) for name in each[0]}
        p, (name, value) = self.progress, next(iter(found.items()))
        if value < p.best:
            p.best, p.best_epoch = value, epoch
            self.best_weights = copy.deepcopy(self.network.state_dict())
        if self.task is Task.MAP and epoch:
            self._improve_scores()
        graphs = self.graphs_seen
        numbers = {"epoch": epoch, "loss": loss, **found, "best": p.best}
        line = {k: v if math.isfinite(v) else None for k, v in numbers.items()}  # JSON has no NaN.
        timing = {"seconds": round(seconds, 3), "graphs_per_second": round(graphs / seconds, 1) if seconds else None}
        p.history.append({**line, **timing})
        if self.writes:
            self.writes.append(p.history[-1])
        if self.report:
            done = epoch * self.batches_per_epoch
            self.report(done, self.settings.epochs * self.batches_per_epoch, self._note(name))

    def _note(self, name: str = "") -> str:
        """Return the text of the progress bar, short enough for a line of 80 characters with the bar and counts."""
        if not self.progress.history:
            return ""
        last = self.progress.history[-1]
        name = name or next(k for k in last if k not in ("epoch", "loss"))
        loss = "" if last["loss"] is None else f"loss {last['loss']:.3g}, "
        speed = f", {last['graphs_per_second']:,.0f}/s" if last["graphs_per_second"] else ""
        found = "not finite" if last[name] is None else f"{last[name]:.3g}"
        return f"{loss}{name} {found} (best {self.progress.best:.3g}){speed}"

    def _goes_on(self) -> bool:
        """Return whether patience and clock allow another epoch; all processes get the same answer."""
        p, patience = self.progress, self.settings.patience
        if self.processes.any(self.clock.stopped):
            self.clock.interrupted |= not self.clock.stopped  # Another process was stopped.
            return False
        return not self.processes.any(bool(patience and p.epoch - p.best_epoch >= patience))

    def _improve_scores(self) -> None:
        """Replace the best known score of a training graph by the score of the network's assignment if it is higher."""
        for plan in self.data.plans(self.judged_at_once):
            for n, score in zip(plan.indices, scores(self.network, self.data.batch(plan)).tolist(), strict=True):
                if score > self.progress.best_scores[n]:
                    self.progress.best_scores[n] = score
        self.data.retarget(self.progress.best_scores)

    def _check_finite(self, losses: Tensor, plans: list[BatchPlan]) -> None:
        bad = torch.nonzero(~torch.isfinite(losses))
        if len(bad):
            self._fail(plans[int(bad[0])])

    def _fail(self, plan: BatchPlan) -> None:
        self.network.load_state_dict(self.best_weights)
        raise SolveError(
            f"The loss is not finite in epoch {self.progress.epoch + 1}, on a batch of {self.data.names(plan)}. Lower "
            f"the learning rate lr, or check these models. The weights of epoch {self.progress.best_epoch} are kept."
        )

    # ---- checkpoints ------------------------------------------------------------------------------------

    def _snapshot(self) -> dict[str, Any]:
        state = {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}
        return copy.deepcopy(state)

    def _restore(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        # Only moments are restored: other settings of the optimizer depend on the device, which may have changed.
        mine = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state["optimizer"]["state"], "param_groups": mine})

    def _check_moments(self, state: dict[int, dict[str, Tensor]]) -> None:
        """Raise `ValueError` if moments do not have the shapes of the parameters; the optimizer does not check."""
        for n, moments in state.items():
            for name in ("exp_avg", "exp_avg_sq"):
                if moments[name].shape != self.parameters[n].shape:
                    raise ValueError(f"{name} of parameter {n} has a wrong shape")

    def save(self) -> None:
        """Write a checkpoint if the run has files."""
        if self.writes:
            self.writes.save(self.progress, {**self._snapshot(), "best": self.best_weights})
        self.saved_at = time.monotonic()

    def resume(self) -> None:
        """Continue from the checkpoint; epochs after the checkpoint are removed from the log."""
        assert self.files is not None
        self.progress, tensors = self.files.load(self.data.device)
        try:
            self._check_moments(tensors["optimizer"]["state"])
            self.network.load_state_dict(tensors["best"])
            self.best_weights = copy.deepcopy(self.network.state_dict())
            self._restore(tensors)
            if self.task is Task.MAP:
                self.data.retarget(self.progress.best_scores)
        except (RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise self.files.damaged(error) from None
        if self.writes:
            self.writes.rewrite_log(self.progress.history)


def _scores_of(data: Dataset) -> list[float]:
    """Return the best scores that are known at the start, one number per graph."""
    return [float(np.ravel(t)[0]) for t in data.targets]
