"""Settings shared by all tests."""

import signal
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from dask_processes import Dask
from hypothesis import settings
from jaxtyping import install_import_hook

# The same examples on every machine and no time limit per example: a slow machine must not turn tests red.
settings.register_profile("equifactor", max_examples=40, deadline=None, derandomize=True, database=None)
settings.load_profile("equifactor")

# A shell starts what runs in its background with Ctrl-C switched off, and tests of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Shapes of tensors are checked while the tests run, and only then, in every module that states some. Modules of Numba
# kernels state none: the check would wrap their compiled functions.
PACKAGE = Path(__file__).parents[1] / "equifactor"


def modules_with_shapes() -> list[str]:
    """The modules of the package that import jaxtyping."""
    files = [path for path in PACKAGE.rglob("*.py") if "from jaxtyping import" in path.read_text(encoding="utf-8")]
    return sorted(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in files)


if find_spec("beartype"):
    install_import_hook(modules_with_shapes(), "shape_checks.checked")


@pytest.fixture(autouse=True)
def same_speed() -> None:
    """Plans are those of the reference machine, on every machine."""
    from equifactor.base.budget import set_machine_speed  # not before the shapes are checked

    set_machine_speed(1.0)


class DrivenTime:
    """The time that clocks read in a test: it moves when the test says so, and by `tick` at every reading."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.tick = 0.0

    def __call__(self) -> float:
        self.seconds += self.tick
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds


@pytest.fixture
def driven_time(monkeypatch: pytest.MonkeyPatch) -> DrivenTime:
    """A time source in place of the clock of the machine; set its `tick` to let time pass at every reading."""
    from equifactor.base.clock import Clock

    source = DrivenTime()
    monkeypatch.setattr(Clock, "now", source)
    return source


@pytest.fixture
def lines_run() -> Callable[[Callable[[], object]], int]:
    """`lines_run(call)` makes a call and returns the number of Python lines that it ran: the same on every machine."""

    def count(call: Callable[[], object]) -> int:
        lines = 0

        def trace(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal lines
            lines += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)
        return lines

    return count


@pytest.fixture
def write_model() -> Callable[..., str]:
    """`write_model(path, "fe-net", task="MAP", hidden=8)` writes a model file whose weights are random."""

    def write(path: str | Path, kind: str = "fe-nbp", task: str = "MAR", seed: int = 1, **settings: Any) -> str:
        import torch

        from equifactor.learned import ModelCard, save_model
        from equifactor.solvers.learned.network import build

        network = build(kind, settings, seed=seed)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for p in network.parameters():
                p += 0.2 * torch.randn(p.shape, generator=generator)
        history = {"data": "ising(4x4, n=10)", "metrics": {"kl": 0.25}, "seed": seed, "updates": 7}
        save_model(path, network, ModelCard.of(network, task, **history))
        return str(path)

    return write


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Dask]:
    """A cluster without processes yet; `dask.scheduler()` and `dask.worker("name")` start them."""
    cluster = Dask(tmp_path)
    try:
        yield cluster
    finally:
        cluster.stop()
