"""Settings shared by all tests."""

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import jaxtyping
import pytest
from dask_processes import Dask
from hypothesis import settings
from jaxtyping import install_import_hook

# The same examples on every machine and no time limit per example: a slow machine must not turn tests red.
settings.register_profile("equifactor", max_examples=40, deadline=None, derandomize=True, database=None)
settings.load_profile("equifactor")

WORKERS: list[dict[str, float]] = []  # The seconds of each process that runs tests.
# Clocks run faster by this factor, so limits hold less work, as on a machine that is slower or busy with other work.
SLOWER = float(os.environ.get("EQUIFACTOR_SLOWER", "1"))
LONG = {"test_new_kind_kernels.py"}  # Files with a test that takes half a minute in one process.
os.environ["EQUIFACTOR_BACKGROUND"] = "0"  # Commands leave no process behind that compiles kernels.

# A shell starts what runs in its background with Ctrl-C switched off, and tests of Ctrl-C would wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Answers must not depend on the tests before: kernels are used even before they are loaded, except in tests of plain
# NumPy.
os.environ["EQUIFACTOR_PLAIN"] = "0"

# Shapes of tensors are checked while the tests run, and only then, in every module that states some. Modules of Numba
# kernels state none: the check would wrap their compiled functions.
PACKAGE = Path(__file__).parents[1] / "equifactor"


def modules_with_shapes() -> list[str]:
    """Return the modules of the package that import jaxtyping."""
    files = [path for path in PACKAGE.rglob("*.py") if "from jaxtyping import" in path.read_text(encoding="utf-8")]
    return sorted(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in files)


if find_spec("beartype"):
    import shape_checks

    jaxtyping.jaxtyped = shape_checks.jaxtyped  # type: ignore[assignment] - The hook decorates with this name.
    install_import_hook(modules_with_shapes(), "shape_checks.checked")


def pytest_configure(config: pytest.Config) -> None:
    """Let each worker begin to collect at another place: each compiles a part of the tests, and finds the rest."""
    worker = getattr(config, "workerinput", None)
    if worker and config.args_source is config.ArgsSource.TESTPATHS:
        folder = Path(__file__).parent
        files = sorted(folder.rglob("test_*.py"))
        number = int(worker["workerid"].removeprefix("gw")) % worker["workercount"]  # one that replaces another is new
        first = files[number * len(files) // worker["workercount"]]
        entries = sorted({folder / path.relative_to(folder).parts[0] for path in files})
        start = entries.index(folder / first.relative_to(folder).parts[0])
        config.args[:] = map(str, entries[start:] + entries[:start])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests in the same order in every worker, long ones first: at the end the others would wait for them."""
    items.sort(key=lambda item: (item.path.name not in LONG, str(item.path)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage, and never look for it among what was collected."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def same_speed() -> None:
    """Plans are those of an idle reference machine, on every machine, and with every kernel ready."""
    from equifactor.base.budget import set_machine_speed  # not before the shapes are checked
    from equifactor.base.clock import Clock

    set_machine_speed(1.0)
    if SLOWER != 1.0:
        Clock.now = staticmethod(lambda: SLOWER * time.perf_counter())  # type: ignore[assignment]
    Clock.cpu_now = staticmethod(lambda: Clock.now())  # type: ignore[assignment] - there is no other work
    Clock.ignores_compiling = True


@pytest.fixture
def plain_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer small models in plain NumPy, so that processes which a test starts need not load the compiler."""
    monkeypatch.setenv("EQUIFACTOR_PLAIN", "1")


class DrivenTime:
    """The time that clocks read in a test. It moves by `advance`, and by `tick` at every reading."""

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
    """Return a time source in place of the clock of the machine; its `tick` passes at every reading."""
    from equifactor.base.clock import Clock

    source = DrivenTime()
    monkeypatch.setattr(Clock, "now", source)
    monkeypatch.setattr(Clock, "cpu_now", lambda: source.seconds)  # The machine has no other work.
    return source


@pytest.fixture
def lines_run() -> Callable[[Callable[[], object]], int]:
    """Return a function such that `lines_run(call)` makes a call and returns the number of Python lines that ran."""

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
    """Return a function that writes a model file of random weights: `write_model(path, "fe-net", hidden=8)`."""

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
    """Return a cluster without processes; `dask.scheduler()` and `dask.worker("name")` start processes."""
    cluster = Dask(tmp_path)
    try:
        yield cluster
    finally:
        cluster.stop()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the seconds of compiling from a worker to the process that prints the summary."""
    from equifactor.base.clock import Compiling

    output = getattr(session.config, "workeroutput", None)
    used = {"compiling": Compiling.cpu, "cpu": time.process_time()}
    if output is None:
        WORKERS.append(used)
    else:
        output.update(used)


def pytest_testnodedown(node: Any) -> None:
    """Take the seconds of a worker that has ended."""
    WORKERS.append(getattr(node, "workeroutput", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how much of the processor time went into compiling kernels."""
    compiling, cpu = (sum(worker.get(name, 0.0) for worker in WORKERS) for name in ("compiling", "cpu"))
    if cpu:
        terminalreporter.line(f"compiling kernels took {compiling:.0f} s of {cpu:.0f} s of processor time in pytest")
