"""Solvers from outside the package: from a file, an installed package or a program, in all commands and workers."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import shutil
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import equifactor as ef
from equifactor.cli import main
from equifactor.solving import plugins, registry

pytestmark = pytest.mark.usefixtures("plain_numpy")

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "my_solver.py"
UNIFORM = '''
from dataclasses import dataclass
from equifactor import Status, Task
from equifactor.answers import Marginals
from equifactor.solvers import Estimate, GraphSolver, register

{above}
@dataclass(frozen=True, kw_only=True)
class Uniform(GraphSolver):
    """Every state equally likely."""

    tasks = (Task.MAR,)

    def run_one(self, graph, task, context):
        {body}
'''
BODY = "return Estimate(status=Status.CONVERGED, marginals=Marginals.from_list([[1 / d] * d for d in graph.card]))"
NETWORK = '''
from dataclasses import dataclass
import torch
import equifactor as ef

@dataclass(frozen=True, kw_only=True)
class Settings(ef.learned.NetworkConfig):
    damping: float = ef.solvers.option(0.5, "where the damping starts", low=0.0, below=1.0)

class Learned(ef.learned.Network):
    config_class = Settings

    def __init__(self, config):
        super().__init__(config)
        self.keep = torch.nn.Parameter(torch.tensor(config.damping))

    def start(self, wiring):
        return ef.learned.NetworkState(wiring, wiring.uniform_messages())

    def step(self, state):
        wiring, old = state.wiring, state.msg_fv
        new = wiring.normalize(wiring.reduce(wiring.outgoing(old)))
        return ef.learned.NetworkState(wiring, wiring.damp(new, old, self.keep))

@dataclass(frozen=True, kw_only=True)
class LearnedSolver(ef.learned.NeuralBP):
    """Belief propagation with one learned damping."""

    network_class = Learned
'''


def uniform(name: str = "flat", body: str = BODY) -> str:
    return UNIFORM.format(above=f'@register("{name}")', body=body)


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> typing.Iterator[None]:
    """Remove what a test registers after the test."""
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    before = set(sys.modules)
    plugins.entry_points.cache_clear()
    yield
    plugins.entry_points.cache_clear()
    for name in set(sys.modules) - before:
        if name.startswith((plugins._MODULE, "her_package")):
            del sys.modules[name]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with a model, a plugin file and, installed in `site`, a package with a solver and a network."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    ef.write_graph(ef.generators.ising_grid(3, 3, seed=1), tmp_path / "models" / "grid.uai")
    (tmp_path / "flat.py").write_text(uniform())
    install(tmp_path / "site", "her-package", {"her-flat": "her_package.flat:Uniform", "her-net": "her_package:Net"})
    return tmp_path


def install(site: Path, name: str, points: dict[str, str]) -> None:
    """Make a package as pip installs it: its modules and its dist-info."""
    package, info = site / name.replace("-", "_"), site / f"{name.replace('-', '_')}-1.5.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text(
        "def __getattr__(name):\n"
        "    if name != 'Net':\n        raise AttributeError(name)\n"
        "    from her_package.net import LearnedSolver\n    return LearnedSolver\n"
    )
    (package / "flat.py").write_text(UNIFORM.format(above="", body=BODY))
    (package / "net.py").write_text(NETWORK)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
    lines = "\n".join(f"{k} = {v}" for k, v in points.items())
    (info / "entry_points.txt").write_text(f"[{plugins.GROUP}]\n{lines}\n")


def run(folder: Path, *args: str, status: int = 0) -> str:
    """Run the command as a separate process with the package on its path, and return its output."""
    path = os.pathsep.join([str(ROOT), str(folder / "site")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-m", "equifactor", *args],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


# ---- every command --------------------------------------------------------------------------------------


def test_every_command_that_takes_a_solver_takes_plugins() -> None:
    from equifactor.cli.app import COMMANDS

    takers = []
    for name in set(COMMANDS) - {"generate"}:  # a group of commands, none of which solves
        names = inspect.signature(getattr(importlib.import_module(f"equifactor.cli.{name}_command"), name)).parameters
        if {"solver", "kind", "files"} & set(names) or name == "solvers":
            takers.append(name)
            assert "plugin" in names, name
    assert {"solve", "evaluate", "train", "view", "compare"} <= set(takers)


def test_a_file_in_every_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ("--plugin", "flat.py")
    listed = run(folder, "solvers", *own)
    assert all(name in listed for name in ("flat ", "her-flat ", "her-net ", "bp "))
    assert "0.5 0.5" in run(folder, "solve", "models/grid.uai", *own, "--solver", "flat")
    monkeypatch.syspath_prepend(folder / "site")
    for words, said in (
        (("solvers", "flat"), "flat: Every state equally likely."),
        (("audit", "models/grid.uai", "--solver", "flat"), "holds"),
    ):
        assert main([*words, *own]) == 0
        assert said in "".join(capsys.readouterr())
    table = run(folder, "evaluate", "models", *own, "--solver", "flat", "--solver", "her-flat", "-o", "out")
    assert table.count("1 converged") == 2


@pytest.mark.slow
def test_an_installed_network_in_every_command(folder: Path) -> None:
    data = ("--data", "ising(3x3, n=10)", "--epochs", "1", "--batch-size", "5", "--set", "steps=4")
    assert "her.safetensors: best in epoch" in run(folder, "train", "her-net", *data, "-o", "her.safetensors")
    assert "her-net: Belief propagation with one learned damping." in run(folder, "model", "her.safetensors")
    assert "MAR\n9 2" in run(folder, "solve", "models/grid.uai", "--solver", "her-net(weights=her.safetensors)")
    assert "1 iteration-limit" in run(folder, "evaluate", "models", "--solver", "her.safetensors", "-o", "out")


@pytest.mark.slow
def test_a_network_of_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def here(*args: str, status: int = 0) -> str:
        assert main(args) == status
        return "".join(capsys.readouterr())

    (folder / "net.py").write_text(NETWORK + "\nef.solvers.register('file-net')(LearnedSolver)\n")
    own = ("--plugin", "net.py")
    data = ("--data", "ising(3x3, n=10)", "--epochs", "1", "--batch-size", "5", "--set", "steps=4")
    here("train", "file-net", *own, *data, "-o", "net.safetensors")
    assert "file-net: Belief propagation" in here("model", "net.safetensors", *own)
    assert "MAR\n9 2" in here("solve", "models/grid.uai", *own, "--solver", "file-net(weights=net.safetensors)")
    assert "1 iteration-limit" in here("evaluate", "models", *own, "--solver", "net.safetensors", "-o", "out")
    del registry._REGISTRY["file-net"]
    unknown = here("solve", "models/grid.uai", "--solver", "net.safetensors", status=3)
    assert "pass its Python file with --plugin" in unknown
    assert "unknown to this version" in here("model", "net.safetensors")


def test_a_program_evaluates_its_own_solver(folder: Path) -> None:
    program = uniform() + (
        "\nimport equifactor as ef\nif __name__ == '__main__':\n"
        "    rows = ef.evaluate(ef.data.collection('models'), 'MAR', ['flat'], 'out')\n    print(rows[0]['status'])\n"
    )
    for text, status in ((program, "converged"), (program.replace("__name__ == '__main__'", "True"), "error")):
        (folder / "program.py").write_text(text)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "program.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.stdout == f"{status}\n", done.stderr
    assert "program.py starts an evaluation while it is loaded" in (folder / "out" / "rows.jsonl").read_text()


def test_changed_code_is_run_anew(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def keys() -> set[str]:
        for name in [n for n in sys.modules if n.startswith(plugins._MODULE)]:
            del sys.modules[name]
        assert main(["evaluate", "models", "--plugin", "flat.py", "--solver", "flat", "-o", "out"]) == 0
        capsys.readouterr()
        return {json.loads(line)["key"] for line in (folder / "out" / "rows.jsonl").read_text().splitlines()}

    assert len(keys()) == 1
    assert len(keys()) == 1
    (folder / "flat.py").write_text(uniform() + "# changed\n")
    assert len(keys()) == 2


# ---- errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (uniform() + "1 / 0\n", "mine.py:16: this file cannot be loaded: ZeroDivisionError: division by zero"),
        (
            "import nothing_of_this_name\n",
            "mine.py:1: this file cannot be loaded: ModuleNotFoundError: No module named",
        ),
        ("x = 1\ndef f(:\n", "mine.py:2: this file cannot be loaded: SyntaxError: invalid syntax"),
        ("raise SystemExit(3)\n", "mine.py:1: this file cannot be loaded: SystemExit: 3"),
        ("import equifactor\n", "mine.py: no solver is registered. Put @equifactor.solvers.register("),
        (uniform("bp"), "mine.py:Uniform and equifactor.solvers.messages.bp:BeliefPropagation of this package. Rename"),
        (uniform("two words"), "mine.py:7: this file cannot be loaded: A solver cannot be called 'two words'"),
        (
            "import equifactor\nequifactor.solvers.register('x')(int)\n",
            "mine.py:2: this file cannot be loaded: x: int is not a solver",
        ),
        ("é".encode("latin-1"), "mine.py:1: this file cannot be loaded: SyntaxError: "),
    ],
)
def test_a_bad_file_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str | bytes, words: str
) -> None:
    (folder / "mine.py").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert main(["solve", "models/grid.uai", "--plugin", "mine.py", "--solver", "flat"]) == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert words in said
    assert "flat" not in registry._REGISTRY  # nothing is left of a file that failed


def test_missing_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "flat.txt").write_text(uniform())
    for name, words in (
        ("no.py", "there is no such"),
        ("models", "this is a folder"),
        ("flat.txt", "this is not a Python file"),
    ):
        assert main(["solvers", "--plugin", name]) == 3
        assert f"equifactor: {name}: {words}" in capsys.readouterr().err


def test_two_files_with_one_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(folder / "flat.py", folder / "again.py")
    assert main(["solvers", "--plugin", "flat.py", "--plugin", "./flat.py"]) == 0
    assert main(["solvers", "--plugin", "flat.py", "--plugin", "again.py"]) == 3
    said = capsys.readouterr().err
    assert "again.py:7: this file cannot be loaded: Two solvers are called 'flat'" in said
    assert "again.py:Uniform and " in said
    assert "flat.py:Uniform. Rename one of them" in said


def test_packages_that_clash_or_fail(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder / "site")
    assert ef.solvers.parse_solver("her-flat").summary() == "Every state equally likely."
    with pytest.raises(ef.OptionError, match=r"did you mean her-flat\?"):
        ef.solvers.parse_solver("her-flet")
    (folder / "mine.py").write_text(uniform("her-net"))
    with pytest.raises(ef.FormatError, match=r"mine.py:7: .*'her-net': .* and her_package:Net of her-package 1\.5"):
        plugins.load_file("mine.py")
    points = folder / "site" / "her_package-1.5.dist-info" / "entry_points.txt"
    for text, words in (
        ("x = her_package.nothing:X", "Solver 'x' of her-package 1.5 cannot be loaded from her_package.nothing:X: Mod"),
        (
            "x = her_package.flat:Status",
            "expected a class derived from equifactor.solvers.Solver, found her_package.flat:Status",
        ),
        ("bp = her_package.flat:Uniform", "'bp', one from her-package 1.5 and one from equifactor itself. Rename one"),
    ):
        points.write_text(f"[{plugins.GROUP}]\n{text}\n")
        plugins.entry_points.cache_clear()
        with pytest.raises(ef.FormatError, match=words):
            ef.solvers.parse_solver("x")
    assert str(ef.solvers.parse_solver("bp")) == "bp"  # installed packages are not searched for it


def test_two_packages_with_one_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(folder / "more", "other-package", {"her-flat": "other_package.flat:Uniform"})
    monkeypatch.syspath_prepend(folder / "site")
    monkeypatch.syspath_prepend(folder / "more")
    with pytest.raises(ef.FormatError, match=r"'her-flat', one from (her|other)-package 1\.5 and one from"):
        ef.solvers.solver_names()


def test_an_error_of_a_plugin_is_not_our_bug(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.py").write_text(uniform(body="return 1 / 0"))
    assert main(["solve", "models/grid.uai", "--plugin", "mine.py", "--solver", "flat"]) == 3
    assert "mine.py:15: ZeroDivisionError: division by zero" in capsys.readouterr().err
    (folder / "other.py").write_text(uniform("other", body="return [0.5, 0.5]"))
    assert main(["solve", "models/grid.uai", "--plugin", "other.py", "--solver", "other"]) == 3
    assert "other returned [0.5, 0.5]; expected an equifactor.solvers.Estimate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("assignment=np.zeros(3, int)", "one state for each of the 4 variables, found shape (3,)."),
        ("assignment=np.full(4, 7)", "State 7 of variable 0 is out of range."),
        ("assignment=np.zeros(4)", "must hold whole numbers, found dtype float64."),
        ("assignment=np.zeros((1, 4), int).tolist() * 2", "An assignment must have one axis."),
        ("marginals=Marginals.from_list([[0.5, 0.5]])", "marginals of 1 variables; expected one vector for each of 4."),
        ("marginals=Marginals.from_list([[1]] * 4)", "marginals with 1 numbers for variable 0; expected 2, one for"),
        ("marginals=[[0.5, 0.5]] * 4", "marginals as an object of type list; expected equifactor.answers.Marginals"),
        ("marginals=np.zeros(8)", "marginals as an object of type ndarray; expected equifactor.answers.Marginals"),
        ("status='converged'", "the status 'converged'; expected an equifactor.Status."),
    ],
)
def test_a_wrong_answer_of_a_plugin_is_not_our_bug(
    folder: Path, capsys: pytest.CaptureFixture[str], body: str, words: str
) -> None:
    ef.write_graph(ef.generators.ising_grid(2, 2), "four.uai")
    text = uniform(body=f"return Estimate(**{{'status': Status.CONVERGED, **dict({body})}})")
    (folder / "mine.py").write_text("import numpy as np\n" + text)
    assert main(["solve", "four.uai", "--plugin", "mine.py", "--solver", "flat"]) == 3
    said = capsys.readouterr().err
    assert "mine.py:Uniform: flat returned " in said
    assert words in said


def test_nan_of_a_plugin_is_a_status(folder: Path) -> None:
    (folder / "mine.py").write_text(uniform(body=BODY.replace("1 / d", "float('nan')")))
    plugins.load_file("mine.py")
    found = ef.solve(ef.generators.ising_grid(2, 2), "MAR", "flat")
    assert found.status is ef.Status.NON_FINITE
    assert found.message.endswith("mine.py:Uniform: flat returned marginals that are not finite.")


def test_installed_packages_cost_nothing_where_nobody_asks(folder: Path) -> None:
    program = (
        "import sys, equifactor as ef\nef.solve(ef.generators.ising_grid(2, 2), 'MAR', 'bp')\n"
        "print({'importlib.metadata', 'equifactor.solving.plugins'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True)
    assert "equifactor.solving.plugins" not in done.stdout


def test_the_example_is_mean_field(folder: Path) -> None:
    plugins.load_file(EXAMPLE)
    graph = ef.generators.ising_grid(3, 3, seed=1, coupling_std=0.1).condition({0: 1})
    found = ef.solve(graph, "MAR", "my-meanfield(sweeps=100)").marginals
    want = ef.solve(graph, "MAR", "meanfield(iterations=500)").marginals
    assert found is not None
    assert want is not None
    assert found.values == pytest.approx(want.values, abs=1e-5)


def test_a_plugin_file_travels_with_its_job(folder: Path) -> None:
    from equifactor.data import Instance
    from equifactor.evaluation.jobs import make_jobs
    from equifactor.evaluation.shipped_jobs import answer, ship

    plugins.load_file(folder / "flat.py")
    (job,) = make_jobs([Instance("mine", "grid", folder / "models" / "grid.uai")], "MAR", ["flat"], 10.0)
    shipped = ship(job)
    assert {path.name for path in shipped.files} == {"grid.uai", "flat.py"}
    (folder / "flat.py").unlink()  # the worker does not see our files
    (folder / "models" / "grid.uai").unlink()
    row = answer(shipped)
    assert row["answered"], row["message"]
