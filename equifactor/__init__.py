"""Inference on discrete factor graphs: marginals, ln Z and MAP by exact, classical and learned solvers.

>>> import equifactor as ef
>>> graph = ef.FactorGraph([2, 2], [([0], [1.0, 3.0]), ([0, 1], [[2.0, 1.0], [1.0, 2.0]])])
>>> ef.solve(graph, "MAR", "brute").marginals[0]
array([0.25, 0.75])

Every public name can be imported from here. It is loaded when it is first asked for, so that a plain `solve` imports
neither torch nor anything else that it does not use.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from equifactor._version import __version__

if TYPE_CHECKING:
    from equifactor import data, decoding, generators, metrics, testing
    from equifactor._compare import compare
    from equifactor._sample import sample
    from equifactor._solve import solve
    from equifactor._solve_many import solve_many
    from equifactor.clock import Clock
    from equifactor.comparison import Comparison
    from equifactor.crf.chain_crf import ChainCRF
    from equifactor.crf.graph_crf import CRF, CRFAnswer
    from equifactor.errors import EquifactorError, FormatError, ModelError, OptionError, SolveError
    from equifactor.evaluation.campaign import evaluate
    from equifactor.factors.clause import Clause
    from equifactor.factors.count import AtLeast, AtMost, Count, Exactly
    from equifactor.factors.noisy_or import NoisyOr
    from equifactor.factors.parity import Parity
    from equifactor.factors.potts import Potts
    from equifactor.factors.sparse_table import SparseTable
    from equifactor.factors.structured_factor import StructuredFactor
    from equifactor.factors.truncated_linear import TruncatedLinear
    from equifactor.fitting.fit_method import Fitted
    from equifactor.fitting.fitter import fit
    from equifactor.graph.compiler import compile
    from equifactor.graph.factor_graph import FactorGraph
    from equifactor.graph.flat_graph import FlatGraph
    from equifactor.graph.lowered_graph import lower
    from equifactor.graph.marginals import Marginals
    from equifactor.interop.networkx import from_networkx, to_networkx
    from equifactor.interop.pgmpy import from_pgmpy, to_pgmpy
    from equifactor.interop.pyagrum import from_pyagrum, to_pyagrum
    from equifactor.interop.pyg import to_pyg
    from equifactor.io import read_evidence, read_graph, write_graph
    from equifactor.many_results import ManyResults
    from equifactor.numerics.tensors.tensor_beliefs import log_scores
    from equifactor.options import option
    from equifactor.page.opening import open_view
    from equifactor.questions.information import Information
    from equifactor.questions.joint import Joint
    from equifactor.registry import parse_solver, register, solver_names
    from equifactor.result import Estimate, Result, Status, Task
    from equifactor.samples import Samples
    from equifactor.show import plot
    from equifactor.solver import ALL_SYMMETRIES, GraphSolver, IterativeSolver, SolveContext, Solver
    from equifactor.solvers.elimination.evidence_rows import EvidenceRows
    from equifactor.solvers.elimination.exact_batch import exact_marginals
    from equifactor.solvers.elimination.plan import Plan, plan
    from equifactor.solvers.learned.bp_layer import Beliefs, beliefs
    from equifactor.solvers.learned.learned_solver import NeuralBP, NeuralSolver
    from equifactor.solvers.learned.model_card import ModelCard, read_card
    from equifactor.solvers.learned.model_files import load_model, save_model
    from equifactor.solvers.learned.network import Network, NetworkConfig, NetworkState
    from equifactor.solvers.learned.replay import Replay
    from equifactor.solvers.optimise.local_search import improve
    from equifactor.solvers.optimise.map_bounds import map_upper_bound, tighten
    from equifactor.symmetry.auditing import equivariance_error
    from equifactor.symmetry.canonical_forms import canonical_form, graph_hash
    from equifactor.symmetry.isomorphisms import isomorphism
    from equifactor.symmetry.relabelled_graph import relabel
    from equifactor.symmetry.relabelling import Relabelling
    from equifactor.training.trainer import train
    from equifactor.training.training_log import TrainingLog
    from equifactor.training.training_settings import TrainingSettings

__all__ = [
    "ALL_SYMMETRIES",
    "CRF",
    "AtLeast",
    "AtMost",
    "Beliefs",
    "CRFAnswer",
    "ChainCRF",
    "Clause",
    "Clock",
    "Comparison",
    "Count",
    "EquifactorError",
    "Estimate",
    "EvidenceRows",
    "Exactly",
    "FactorGraph",
    "Fitted",
    "FlatGraph",
    "FormatError",
    "GraphSolver",
    "Information",
    "IterativeSolver",
    "Joint",
    "ManyResults",
    "Marginals",
    "ModelCard",
    "ModelError",
    "Network",
    "NetworkConfig",
    "NetworkState",
    "NeuralBP",
    "NeuralSolver",
    "NoisyOr",
    "OptionError",
    "Parity",
    "Plan",
    "Potts",
    "Relabelling",
    "Replay",
    "Result",
    "Samples",
    "SolveContext",
    "SolveError",
    "Solver",
    "SparseTable",
    "Status",
    "StructuredFactor",
    "Task",
    "TrainingLog",
    "TrainingSettings",
    "TruncatedLinear",
    "__version__",
    "beliefs",
    "canonical_form",
    "compare",
    "compile",
    "data",
    "decoding",
    "equivariance_error",
    "evaluate",
    "exact_marginals",
    "fit",
    "from_networkx",
    "from_pgmpy",
    "from_pyagrum",
    "generators",
    "graph_hash",
    "improve",
    "isomorphism",
    "load_model",
    "log_scores",
    "lower",
    "map_upper_bound",
    "metrics",
    "open_view",
    "option",
    "parse_solver",
    "plan",
    "plot",
    "read_card",
    "read_evidence",
    "read_graph",
    "register",
    "relabel",
    "sample",
    "save_model",
    "solve",
    "solve_many",
    "solver_names",
    "testing",
    "tighten",
    "to_networkx",
    "to_pgmpy",
    "to_pyagrum",
    "to_pyg",
    "train",
    "write_graph",
]

# The module below `equifactor` that each name comes from; the module itself where the two are the same.
_MODULE_OF = {
    "ALL_SYMMETRIES": "solver",
    "AtLeast": "factors.count",
    "AtMost": "factors.count",
    "Beliefs": "solvers.learned.bp_layer",
    "CRF": "crf.graph_crf",
    "CRFAnswer": "crf.graph_crf",
    "ChainCRF": "crf.chain_crf",
    "Clause": "factors.clause",
    "Clock": "clock",
    "Comparison": "comparison",
    "Count": "factors.count",
    "EquifactorError": "errors",
    "Estimate": "result",
    "EvidenceRows": "solvers.elimination.evidence_rows",
    "Exactly": "factors.count",
    "FactorGraph": "graph.factor_graph",
    "Fitted": "fitting.fit_method",
    "FlatGraph": "graph.flat_graph",
    "FormatError": "errors",
    "GraphSolver": "solver",
    "Information": "questions.information",
    "IterativeSolver": "solver",
    "Joint": "questions.joint",
    "ManyResults": "many_results",
    "Marginals": "graph.marginals",
    "ModelCard": "solvers.learned.model_card",
    "ModelError": "errors",
    "Network": "solvers.learned.network",
    "NetworkConfig": "solvers.learned.network",
    "NetworkState": "solvers.learned.network",
    "NeuralBP": "solvers.learned.learned_solver",
    "NeuralSolver": "solvers.learned.learned_solver",
    "NoisyOr": "factors.noisy_or",
    "OptionError": "errors",
    "Parity": "factors.parity",
    "Plan": "solvers.elimination.plan",
    "Potts": "factors.potts",
    "Relabelling": "symmetry.relabelling",
    "Replay": "solvers.learned.replay",
    "Result": "result",
    "Samples": "samples",
    "SolveContext": "solver",
    "SolveError": "errors",
    "Solver": "solver",
    "SparseTable": "factors.sparse_table",
    "Status": "result",
    "StructuredFactor": "factors.structured_factor",
    "Task": "result",
    "TrainingLog": "training.training_log",
    "TrainingSettings": "training.training_settings",
    "TruncatedLinear": "factors.truncated_linear",
    "beliefs": "solvers.learned.bp_layer",
    "canonical_form": "symmetry.canonical_forms",
    "compare": "_compare",
    "compile": "graph.compiler",
    "data": "data",
    "decoding": "decoding",
    "equivariance_error": "symmetry.auditing",
    "evaluate": "evaluation.campaign",
    "exact_marginals": "solvers.elimination.exact_batch",
    "from_networkx": "interop.networkx",
    "from_pgmpy": "interop.pgmpy",
    "from_pyagrum": "interop.pyagrum",
    "fit": "fitting.fitter",
    "generators": "generators",
    "graph_hash": "symmetry.canonical_forms",
    "improve": "solvers.optimise.local_search",
    "isomorphism": "symmetry.isomorphisms",
    "load_model": "solvers.learned.model_files",
    "log_scores": "numerics.tensors.tensor_beliefs",
    "lower": "graph.lowered_graph",
    "map_upper_bound": "solvers.optimise.map_bounds",
    "metrics": "metrics",
    "open_view": "page.opening",
    "option": "options",
    "parse_solver": "registry",
    "plan": "solvers.elimination.plan",
    "plot": "show",
    "read_card": "solvers.learned.model_card",
    "read_evidence": "io",
    "read_graph": "io",
    "register": "registry",
    "relabel": "symmetry.relabelled_graph",
    "sample": "_sample",
    "save_model": "solvers.learned.model_files",
    "solve": "_solve",
    "solve_many": "_solve_many",
    "solver_names": "registry",
    "testing": "testing",
    "tighten": "solvers.optimise.map_bounds",
    "to_networkx": "interop.networkx",
    "to_pgmpy": "interop.pgmpy",
    "to_pyagrum": "interop.pyagrum",
    "to_pyg": "interop.pyg",
    "train": "training.trainer",
    "write_graph": "io",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        # With name and obj the interpreter adds the nearest name.
        raise AttributeError(f"module 'equifactor' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    try:
        module = __import__(f"equifactor.{_MODULE_OF[name]}", fromlist=[name])  # Also loads a submodule of this name.
    except ModuleNotFoundError as error:
        raise importlib.import_module("equifactor.optional_packages").explained(error, name) from None
    value = module if name == _MODULE_OF[name] else getattr(module, name)
    globals()[name] = value  # The next access is a plain one.
    return value


def __dir__() -> list[str]:
    return __all__
