"""The part of the recipe in CONTRIBUTING.md on compiled kernels, followed in a copy of the package by a toy kind.

The kernels of the toy enumerate the assignments of a factor. Each function of the recipe's table gets one branch.
"""

from __future__ import annotations

import inspect
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import equifactor as ef
from tests.factors.test_new_kind import ROOT, graph_of, recipe

KERNELS = '''
import numpy as np

from equifactor.factors.pair_kernels import plus
from equifactor.graph.layout import CARD, MSG, STATE, VAR
from equifactor.kernels.fastmath import NEG_INF
from equifactor.kernels.jit import fast_kernel, inlined


@fast_kernel
def clash(states):
    for j in range(len(states)):
        for i in range(j):
            if states[i] == states[j]:
                return True
    return False


@fast_kernel
def go_on(slots, first, states):
    for j in range(len(states)):
        states[j] += 1
        if states[j] < slots[first + j, CARD]:
            return True
        states[j] = 0
    return False


@fast_kernel
def messages(slots, first, k, log_value, q, out, is_max):
    for s in range(first, first + k):
        out[slots[s, MSG] : slots[s, MSG] + slots[s, CARD]] = NEG_INF
    states = np.zeros(k, np.int64)
    more = True
    while more:
        for j in range(k):
            total = log_value if clash(states) else 0.0
            for i in range(k):
                total += q[slots[first + i, MSG] + states[i]] if i != j else 0.0
            at = slots[first + j, MSG] + states[j]
            out[at] = plus(out[at], total, is_max)
        more = go_on(slots, first, states)


@fast_kernel
def maximum(slots, first, k, log_value, q, chosen):
    best, states, more = NEG_INF, np.zeros(k, np.int64), True
    while more:
        total = log_value if clash(states) else 0.0
        for j in range(k):
            total += q[slots[first + j, MSG] + states[j]]
        if total > best:
            best = total
            chosen[:k] = states
        more = go_on(slots, first, states)
    return best


@fast_kernel
def clash_given(slots, first, k, s, q, odds):
    """Add to odds the probability of a clash at each state of slot s; that of all states together if s is -1."""
    states, more = np.zeros(k, np.int64), True
    while more:
        p = 1.0 if clash(states) else 0.0
        for j in range(k):
            p *= q[slots[first + j, STATE] + states[j]] if first + j != s else 1.0
        odds[states[s - first] if s >= 0 else 0] += p
        more = go_on(slots, first, states)


@fast_kernel
def expect(slots, first, k, s, finite, zero, q, gain, harm):
    odds = np.zeros(len(gain))
    clash_given(slots, first, k, s, q, odds)
    for x in range(len(odds)):
        gain[x] += odds[x] * finite
        harm[x] += odds[x] * zero


@fast_kernel
def conditional(slots, first, k, s, log_value, at, values):
    states = np.empty(k, np.int64)
    for j in range(k):
        states[j] = at[slots[first + j, VAR]]
    for x in range(slots[s, CARD]):
        states[s - first] = x
        values[x] = log_value if clash(states) else 0.0


@inlined
def value_of_word(values, start, word):
    """The word counts the variables in each state, three bits for each."""
    some = word & 0o666666666666666666
    return values[start] if some else 0.0
'''

MOVES = """
import numpy as np

from equifactor.factors.move_rows import MoveRows
from equifactor.kernels.pointers import ptr_of


def all_different_moves(rows):
    weight = np.tile([1, 0], (len(rows.card), 1))
    labels = np.concatenate([8 ** np.arange(d) for d in rows.card])
    low = np.where(np.isneginf(rows.log_values), 0.0, np.minimum(rows.log_values, 0.0))
    base = np.zeros((rows.num_factors, 2), np.int64)
    can_vanish = bool(np.isneginf(rows.log_values).any())
    return MoveRows(
        rows, 2 + ptr_of(rows.card)[:-1], weight, base, rows.log_values, rows.value_ptr, low,
        np.maximum(rows.log_values, 0.0), can_vanish, labels=labels,
    )
"""

# The branch of each function that the recipe names.
BRANCHES = {
    ("structured_kernels.py", "_messages"): "messages(slots, first, k, log_phi[start], q, out, is_max)",
    ("structured_kernels.py", "_maximum"): "return maximum(slots, first, k, log_phi[start], q, chosen)",
    ("expectation_kernels.py", "expect_structured"): (
        "expect(slots, first, factors[p + 1, SLOT] - first, s, finite[start], zero[start], q, gain, harm)"
    ),
    ("expectation_kernels.py", "expected_log"): (
        "gain, harm = np.zeros(1), np.zeros(1); "
        "expect(slots, first, factors[p + 1, SLOT] - first, -1, finite[start], zero[start], q, gain, harm); "
        "mean, zeros = gain[0], harm[0]"
    ),
    ("conditional_kernels.py", "conditional_values"): (
        "conditional(slots, first, k, s, log_phi[start], states, values)"
    ),
    ("kind_moves.py", "value_of"): "value = value_of_word(values, start, first)",
}
# Solvers that call these functions, each with a task: messages; maxima and conditional values; expected logs; running
# values.
RUNS = [("bp", "MAR"), ("mplp", "MAP"), ("meanfield", "MAR"), ("beam", "MAP")]

SCRIPT = f"""
import pickle
from pathlib import Path
from typing import Any
import numpy as np
import equifactor as ef
from equifactor.factors.all_different import AllDifferent
from equifactor.graph.kinds import has_kernels, kind_number

{inspect.getsource(graph_of)}

assert AllDifferent.number == kind_number("all_different")
graph = graph_of(AllDifferent, False)
assert has_kernels(graph.structure.kinds.kind)
tables = [(graph.structure.scope(a).tolist(), np.exp(graph.log_table(a))) for a in range(graph.num_factors)]
found = [ef.solve(graph, task, spec) for spec, task in {RUNS}]
answers = [r.log_score if r.task is ef.Task.MAP else r.marginals.values for r in found]
Path("found.pickle").write_bytes(pickle.dumps((tables, answers)))
"""


def table_of_the_recipe() -> set[tuple[str, str]]:
    """Return the modules and functions of the table, without those that are needed for some kinds only."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+\.py)` \| (.*?) \|", text, re.MULTILINE)
    return {(module, name) for module, names in rows for name in re.findall(r"`(\w+)`", names.partition(";")[0])}


def with_branch(source: str, function: str, call: str) -> str:
    """Return the source of a module in which a function begins its branches with one for the new kind."""
    before, rest = re.split(rf"(?<=\ndef {function}\()", source)
    at = re.search(r"^    if kind ", rest, re.MULTILINE)
    assert at is not None
    return f"{before}{rest[: at.start()]}    if kind == ALL_DIFFERENT:\n        {call}\n    el{rest[at.start() + 4 :]}"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a copy of the package to which the toy kind was added."""
    folder = tmp_path_factory.mktemp("copy")
    package = folder / "equifactor"
    shutil.copytree(ROOT / "equifactor", package, ignore=shutil.ignore_patterns("__pycache__", "weights", "static"))
    factors = package / "factors"
    own = factors / "all_different"
    own.mkdir()
    code = (
        recipe().replace("@ef.factors.register_kind\n", "").replace("ef.factors.StructuredFactor", "StructuredFactor")
    )
    code = code.replace("import equifactor as ef", "from equifactor.graph.structured_factor import StructuredFactor")
    place = "equifactor.factors.all_different.all_different_moves:all_different_moves"
    kind = '    kind = "all_different"'
    assert kind in code
    (own / "__init__.py").write_text(code.replace(kind, f'    has_kernels = True\n    moves = "{place}"\n{kind}'))
    (own / "all_different_kernels.py").write_text(KERNELS)
    (own / "all_different_moves.py").write_text(MOVES)
    kinds = package / "graph" / "kinds.py"
    last = '    "truncated_linear": "equifactor.factors.truncated_linear:TruncatedLinear",\n'
    line = '    "all_different": "equifactor.factors.all_different:AllDifferent",\n'
    kinds.write_text(kinds.read_text(encoding="utf-8").replace(last, last + line), encoding="utf-8")
    with (factors / "kind_numbers.py").open("a", encoding="utf-8") as handle:
        handle.write('ALL_DIFFERENT = kind_number("all_different")\n')
    for (module, function), call in BRANCHES.items():
        text = with_branch((factors / module).read_text(encoding="utf-8"), function, call)
        name = call.partition("(")[0].rpartition(" ")[2] if ";" not in call else "expect"
        where = "equifactor.factors.all_different.all_different_kernels"
        lines = f"from equifactor.factors.kind_numbers import ALL_DIFFERENT\nfrom {where} import {name}\n"
        text = re.sub(r"^from equifactor", f"{lines}from equifactor", text, count=1, flags=re.MULTILINE)
        (factors / module).write_text(text, encoding="utf-8")
    return folder


def test_the_recipe_names_the_functions_that_this_test_extends() -> None:
    assert table_of_the_recipe() == set(BRANCHES)


def test_a_kind_with_kernels_goes_through_the_solvers_that_use_them(copy: Path) -> None:
    run = {**os.environ, "PYTHONPATH": str(copy)}
    run.pop("NUMBA_CACHE_DIR", None)  # Entries of the unchanged package do not know the kind.
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=copy, env=run, capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    tables, answers = pickle.loads((copy / "found.pickle").read_bytes())
    dense = ef.FactorGraph([3, 3, 3, 2, 2], tables)
    for (spec, task), found in zip(RUNS, answers, strict=True):
        wanted = ef.solve(dense, task, spec if spec == "meanfield" else "brute")  # The graph is a tree.
        if task == "MAP":
            assert found == pytest.approx(wanted.log_score, abs=1e-9), spec
        else:
            np.testing.assert_allclose(found, wanted.marginals.values, atol=1e-6, err_msg=spec)
