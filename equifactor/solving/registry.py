"""Solvers by name: the one table of all of them, and solvers read from text such as `bp(damping=0.5)`.

A new solver, classical or learned, is one new file and one line in `SOLVERS`. A class outside this package
becomes known by the decorator `register`, or by an entry point of its own package (`equifactor.solving.plugins`).
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from equifactor.base.errors import OptionError, brief
from equifactor.base.options import NAME, choices, make_method, parse_options, replace_settings, split_text

if TYPE_CHECKING:
    from equifactor.solving.solver import Solver

    S = TypeVar("S", bound=type[Solver])

# The file and the class of each solver. A file is imported when its solver is first asked for.
SOLVERS = {
    # The choice among the others.
    "auto": "equifactor.solvers.auto.chooser:Auto",
    # Certified bounds on ln Z.
    "mini-buckets": "equifactor.solvers.bounds.mini_buckets:WeightedMiniBuckets",
    # Exact answers by search.
    "ganak": "equifactor.solvers.counting.ganak:Ganak",
    "search-sum": "equifactor.solvers.counting.sum_search:SearchSum",
    # Exact answers by elimination.
    "brute": "equifactor.solvers.elimination.brute:BruteForce",
    "exact": "equifactor.solvers.elimination.exact:Exact",
    # Learned networks; each line also makes a kind of network known to `train` and to model files.
    "bpnn": "equifactor.solvers.learned.bpnn:BPNNSolver",
    "fe-gnn": "equifactor.solvers.learned.fe_gnn_solver:FEGNNSolver",
    "fe-nbp": "equifactor.solvers.learned.fe_nbp_solver:FENBPSolver",
    "fe-net": "equifactor.solvers.learned.fe_net_solver:FENetSolver",
    "fgnn": "equifactor.solvers.learned.fgnn:FGNNSolver",
    "ggnn": "equifactor.solvers.learned.ggnn:GGNNSolver",
    "nebp": "equifactor.solvers.learned.nebp:NEBPSolver",
    # Message passing.
    "bp": "equifactor.solvers.messages.bp:BeliefPropagation",
    "loop-bp": "equifactor.solvers.regions.loop_bp:LoopCorrectedBp",
    "meanfield": "equifactor.solvers.messages.meanfield:MeanField",
    "trw": "equifactor.solvers.messages.trw:TreeReweighted",
    # Optimisation: the best assignment and bounds on its score.
    "beam": "equifactor.solvers.search.beam:Beam",
    "best-first": "equifactor.solvers.search.beam:BestFirst",
    "branch": "equifactor.solvers.search.branch:Branch",
    "local-search": "equifactor.solvers.search.local_search:LocalSearchSolver",
    "mplp": "equifactor.solvers.duals.dual_solvers:Mplp",
    "srmp": "equifactor.solvers.duals.dual_solvers:Srmp",
    "toulbar2": "equifactor.solvers.search.toulbar2:Toulbar2",
    # Regions of bounded size.
    "regions": "equifactor.solvers.regions.bounded_regions:Regions",
    # Sampling, and sums over a cutset in place of samples.
    "blocks": "equifactor.solvers.sampling.blocks:BlockSampling",
    "conditioning": "equifactor.solvers.cutsets.conditioning:Conditioning",
    "gibbs": "equifactor.solvers.sampling.gibbs:Gibbs",
}

MODEL_SUFFIX = ".safetensors"
MODEL_KIND = "equifactor.solvers.learned.model_card:model_kind"  # The function that names the solver of a model file.
_REGISTRY: dict[str, type[Solver]] = {}  # The classes that have been imported, by name.
_MODEL_TEXT = re.compile(rf"(.*{re.escape(MODEL_SUFFIX)})\s*(?:\((.*)\))?", re.DOTALL)


def register(name: str) -> Callable[[S], S]:
    """Return a class decorator that registers a solver under a name, which must be unique."""

    def decorate(cls: S) -> S:
        if SOLVERS.get(name) != f"{cls.__module__}:{cls.__qualname__}":
            _check_registration(name, cls)
        cls.take_name(name)
        _REGISTRY[name] = cls
        return cls

    return decorate


def _check_registration(name: str, cls: type[Solver]) -> None:
    """Raise `OptionError` if a class from outside cannot have this name or is not a solver."""
    from equifactor.solving import plugins
    from equifactor.solving.solver import Solver

    if not re.fullmatch(NAME, name):
        raise OptionError(
            f"A solver cannot be called {name!r}. A name starts with a letter, followed by letters, digits, _ and -."
        )
    if not issubclass(cls, Solver):
        raise OptionError(f"{name}: {cls.__qualname__} is not a solver. Derive it from GraphSolver or IterativeSolver.")
    if name in SOLVERS:
        other = f"{SOLVERS[name]} of this package"
    elif name in _REGISTRY:
        known = plugins.definition_site(_REGISTRY[name])
        other = known if known != plugins.definition_site(cls) else ""
    else:
        other = plugins.clash(name, cls)
    if other:
        raise OptionError(
            f"Two solvers are called {name!r}: {plugins.definition_site(cls)} and {other}. Rename one of them."
        )


def solver_names() -> list[str]:
    """Return the names of all solvers: of the table `SOLVERS`, of installed packages, and registered ones."""
    from equifactor.solving import plugins

    return sorted({*SOLVERS, *_REGISTRY, *plugins.entry_points()})


def is_solver(name: str) -> bool:
    """Return whether a solver has this name; installed packages are searched only if this package lacks it."""
    if name in SOLVERS or name in _REGISTRY:
        return True
    from equifactor.solving import plugins

    return name in plugins.entry_points()


def solver_class(name: str) -> type[Solver]:
    """Return the class of a solver by its name; only its own file is imported."""
    if name in _REGISTRY:
        return _REGISTRY[name]
    if name not in SOLVERS:
        if not is_solver(name):
            from equifactor.base.foreign_names import solver_like

            like = solver_like(name)
            known = f"write {like} instead" if like else choices(name, solver_names())
            raise OptionError(f"There is no solver {name!r}; {known}")
        from equifactor.solving import plugins

        return plugins.load_entry_point(name)
    module, _, cls = SOLVERS[name].partition(":")
    try:
        found: type[Solver] = getattr(importlib.import_module(module), cls)
    except ModuleNotFoundError as error:
        from equifactor.base.optional_packages import explained

        raise explained(error, name) from None
    return found


def parse_solver(spec: str | Solver, settings: Mapping[str, Any] | None = None) -> Solver:
    """Return the solver of a text such as `bp(damping=0.5)` or of a model file, or a solver object.

    Args:
        spec: the text, the path of a model file with `(options)` or without, or a solver object.
        settings: further options by name, which override those of the text.
    """
    from equifactor.solving.solver import Solver

    if settings is not None and not isinstance(settings, Mapping):
        raise OptionError(f"The settings of a solver must be a mapping, found {brief(settings)}.")
    keywords = settings or {}
    if isinstance(spec, Solver):
        return replace_settings(spec, keywords)
    if isinstance(spec, str) and spec in SOLVERS and not keywords:
        return _with_defaults(spec)
    name, text, weights = _name_and_options(spec)
    given = {**parse_options(name, text), **keywords}
    if weights is not None:
        if "weights" in given:
            raise OptionError(f"{name} is given weights twice. Give them once.")
        given["weights"] = weights
    return make_method(solver_class(name), given)


@functools.cache
def _with_defaults(name: str) -> Solver:
    """Return a solver of the table with its default settings; solvers are frozen, so one object serves all calls."""
    return solver_class(name)()


def _name_and_options(spec: str) -> tuple[str, str, str | None]:
    """Return the name of the solver, the text of its options, and the model file if the text names one."""
    text = spec if isinstance(spec, str) else ""
    solver, model = split_text(text), _MODEL_TEXT.fullmatch(text.strip())
    if solver and (not model or is_solver(solver[0])):
        return *solver, None
    if not model:
        raise OptionError(
            f"Cannot read the solver {brief(spec)}. Write it like bp, bp(damping=0.5), or mine{MODEL_SUFFIX} for a "
            "model file."
        )
    module, _, function = MODEL_KIND.partition(":")
    return getattr(importlib.import_module(module), function)(model[1]), model[2] or "", model[1]
