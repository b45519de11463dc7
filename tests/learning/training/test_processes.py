"""Two processes under torchrun give the weights of one: a single writer, Ctrl-C, resume, and a process that fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from equifactor import train
from equifactor.learned import load_model

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(
    not find_spec("lightning_fabric") or sys.platform == "win32", reason="several processes need Lightning Fabric"
)

EPOCHS = 60
DATA = "ising(3x3, n=9)"
NETWORK = {"hidden": 4, "steps": 3}
SETTINGS = {"epochs": EPOCHS, "batch_size": 3, "patience": 0, "lr": 0.01}


def torchrun(folder: Path, *args: str) -> subprocess.Popen[str]:
    """Start `equifactor train` in two processes that communicate over localhost, in a new process group."""
    options = [f"--{k.replace('_', '-')}={v}" for k, v in SETTINGS.items()]
    options += [f"--set={k}={v}" for k, v in NETWORK.items()]
    return subprocess.Popen(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "equifactor",
            "train", *args, "--data", DATA, "--out", "two.safetensors", *options,
        ],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def ended(run: subprocess.Popen[str], seconds: float = 600.0) -> tuple[int, str, str]:
    """Return status and texts of a run that ends by itself; kill a run that hangs, with all of its processes."""
    try:
        out, err = run.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        pytest.fail("the processes hang")
    with pytest.raises(ProcessLookupError):
        os.killpg(run.pid, 0)  # No process is left.
    return run.returncode, out, err


@pytest.mark.slow
def test_two_processes_train_what_one_does_also_across_ctrl_c(tmp_path: Path) -> None:
    run = torchrun(tmp_path, "fe-nbp")
    log = tmp_path / "two.jsonl"
    deadline = time.monotonic() + 600
    while (
        run.poll() is None and time.monotonic() < deadline and not (log.is_file() and log.read_text().count("\n") > 2)
    ):
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    ended(run)
    lines = log.read_text().count("\n")
    assert 2 < lines < EPOCHS + 1  # It was stopped, and only one process writes the log.
    assert {p.name for p in tmp_path.iterdir()} == {"two.safetensors", "two.jsonl", "two.checkpoint"}

    status, out, err = ended(torchrun(tmp_path, "fe-nbp", "--resume"))
    assert status == 0, err
    assert out.count("two.safetensors: best in epoch") == 1
    assert log.read_text().count("\n") == EPOCHS + 1
    one = train("fe-nbp", [DATA], "MAR", **NETWORK, **SETTINGS).network.state_dict()
    two = load_model(tmp_path / "two.safetensors")[0].state_dict()
    for name, weight in one.items():
        assert two[name].numpy() == pytest.approx(weight.numpy(), abs=1e-4), name


@pytest.mark.slow
def test_a_process_that_fails_ends_the_others(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "import os\nimport equifactor as ef\n"
        "class Bad(ef.solvers.parse_solver('fe-nbp').network_class):\n"
        "    def step(self, state):\n"
        "        if os.environ.get('RANK') == '1':\n            raise ef.ModelError('this one fails')\n"
        "        return super().step(state)\n"
        "@ef.solvers.register('bad')\nclass BadSolver(type(ef.solvers.parse_solver('fe-nbp'))):\n"
        '    """Fails in the second process."""\n    network_class = Bad\n'
    )
    status, _, err = ended(torchrun(tmp_path, "bad", "--plugin", "bad.py"))
    assert status != 0
    assert "this one fails" in err
