"""A command on a small model imports neither Numba nor torch nor pydantic."""

import os
import subprocess
import sys
from pathlib import Path

from equifactor.cli import main
from equifactor.cli.plain_values import with_plain_values
from equifactor.formats import write_graph
from equifactor.generators import ising_grid, random_graph
from equifactor.generators.random_formulas import random_ksat

# In a process of its own: an import of one of these packages fails.
PROGRAM = """
import sys
for name in ("numba", "torch", "pydantic"):
    sys.modules[name] = None
from equifactor.cli import main
for line in sys.argv[1:]:
    status = main(line.split())
    if status:
        sys.exit(f"{line}: status {status}")
"""


def test_small_models_need_no_kernels(tmp_path: Path):
    write_graph(ising_grid(8, 8, seed=0), tmp_path / "grid.uai")
    write_graph(random_graph(30, 30, arity=(1, 3), card=(2, 3), zeros=0.2, seed=0), tmp_path / "zeros.uai")
    write_graph(random_ksat(20, ratio=3.0, seed=0), tmp_path / "formula.cnf")
    lines = [f"{command} {name}" for command in ("solve", "info") for name in ("grid.uai", "zeros.uai", "formula.cnf")]
    lines += [f"solve grid.uai --task {task}" for task in ("PR", "MAP")]
    lines += [f"solve grid.uai zeros.uai --solver bp --task {task}" for task in ("MAR", "MAP")]
    lines += ["solve grid.uai -e 0=1,5=0 --seed 3 --time-limit 20.5 --json -o grid.json", "--version"]
    settings = {k: v for k, v in os.environ.items() if k != "EQUIFACTOR_PLAIN"}
    package = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *lines],
        capture_output=True, text=True, cwd=tmp_path, env={**settings, "PYTHONPATH": str(package)}, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


def test_a_list_of_solvers_does_not_import_torch():
    program = "import sys; from equifactor.cli import main; main(['solvers']); sys.exit('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "fe-net" in run.stdout


class Descriptor:
    """What typer knows of the type of a parameter."""

    class parameter_info:  # noqa: N801 - the name is that of typer
        parser = min = max = None

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation


class Parameter:
    """A parameter of a command, with the attributes of typer that the conversion uses."""

    _runtime_param = None
    multiple, nargs = False, 1

    def __init__(self, annotation: object) -> None:
        self.type_descriptor = Descriptor(annotation)

    def get_runtime_param(self) -> object:
        """Return the conversion of typer."""
        raise RuntimeError("typer converts it")


class Command:
    """A command with some parameters."""

    def __init__(self, *params: Parameter) -> None:
        self.params = params

    def get_params(self, ctx: object) -> tuple[Parameter, ...]:
        """Return the parameters."""
        return self.params


def converted(annotation: object, value: object) -> object:
    (parameter,) = with_plain_values(Command(Parameter(annotation))).get_params(None)
    try:
        return parameter._runtime_param.coerce(value, param=parameter, ctx=None)
    except RuntimeError as error:
        return str(error)


def test_plain_values_keep_their_type():
    assert converted(str, "a") == "a"
    assert converted(int, "-12") == -12
    assert converted(float, "2.50") == 2.5
    assert converted(float, "3") == 3.0
    assert isinstance(converted(float, "3"), float)
    assert converted(bool, True) is True
    assert converted(list[str], ("a", "b")) == ["a", "b"]
    assert converted(int, None) is None


def test_typer_converts_unusual_values():
    for annotation, value in [(int, "1e3"), (int, "x"), (int, "1_000"), (float, "nan"), (float, "1e3"), (Path, "a")]:
        assert converted(annotation, value) == "typer converts it"


def test_errors_are_those_of_typer(capsys):
    assert main(["solve", "missing.uai", "--seed", "x"]) == 2
    assert "--seed" in capsys.readouterr().err
    assert main(["solve", "missing.uai", "--time-limit", "-1"]) == 2
