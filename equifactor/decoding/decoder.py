"""`Decoder`: one code, any number of shots."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from equifactor.base.argument_types import checks_types
from equifactor.base.clock import Clock
from equifactor.base.cores import num_threads
from equifactor.base.errors import OptionError, brief
from equifactor.base.options import did_you_mean, format_value
from equifactor.base.progress import bar
from equifactor.base.run_context import check_run
from equifactor.decoding.code_files import read_code
from equifactor.decoding.code_sources import is_source, read_source
from equifactor.decoding.decoding_result import DecodingResult
from equifactor.decoding.error_model import ErrorModel
from equifactor.decoding.error_sampling import LogicalErrorRate, ShotSampler
from equifactor.decoding.error_search import SearchEngine
from equifactor.decoding.lane_crew import FEWEST_SHOTS, LaneCrew
from equifactor.decoding.lane_engine import LaneEngine
from equifactor.decoding.linked_parts import is_hard, linked
from equifactor.decoding.methods import (
    ClassDecoding,
    DecodingMethod,
    OptimalDecoding,
    PooledDecoding,
    SearchDecoding,
    decoding_method,
)
from equifactor.decoding.plain_lanes import PlainLanes
from equifactor.decoding.problem import DecodingProblem
from equifactor.decoding.shot_priors import ShotPriors, weigh_certain
from equifactor.decoding.shot_store import ShotStore, shot_source
from equifactor.generators.argument_checks import whole
from equifactor.kernels.readiness import plain_seconds_left

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from equifactor.base.run_context import Progress
    from equifactor.base.typing import BoolArray

_MOST_BYTES = 2**34  # Bytes for the answers of one call: 32 for a shot and two for each observable. Chosen by hand.
_SAME = 1e-5  # Weights that differ by less than this share are equal: the engines add log ratios in single precision.
_ARGUMENTS = ("priors", "observables", "method", "basis", "device")


class DecodingEngine(Protocol):
    """An engine that decodes the shots of a store: `LaneEngine` or `PlainLanes` on the CPU, `GpuEngine` on a GPU."""

    def prepare(self, store: ShotStore) -> None:
        """Load the compiled kernels, so that `decode` does not spend time on that."""

    def decode(self, store: ShotStore, clock: Clock, report: Callable[[int], None]) -> None:
        """Fill the answers of the store, and call `report` with the number of finished shots.

        Shots begin in their order. No shot begins after the clock has stopped. Shots that have begun are finished while
        `no_time_to_finish` is False, and are abandoned then: hard shots take longest, so that an error rate that leaves
        them out would be too low. `store.decoded` is also False for shots that have not begun, which are the last ones.
        """


class Decoder:
    """A decoder that finds likely errors that explain a shot, and the observables that these errors flip.

    Args:
        checks: [D, E] matrix of zeros and ones, numpy or scipy.sparse: which detectors each error flips. Or an
            `ErrorModel`, a path (.alist, .npz, .dem, .stim; also .gz, .xz), a circuit or error model of Stim, or the
            text of one.
        priors: [E] probabilities of the errors, or one probability for all. A model, a circuit or a .dem file states
            its own, so that the method may take this place: `Decoder(model, "relay")`.
        observables: [L, E] matrix of zeros and ones, or None if only corrections are of interest.
        method: `relay`, `pooled`, `search`, `class`, `learned-memory`, `memory`, `min-sum`, `sum-product`,
            `bp-osd` or `optimal`, alone or with settings, as in `relay(solutions=3)`. The default is
            `search(schedule=serial)` for circuits of codes that matching cannot decode, otherwise `pooled`, and
            `relay` on a GPU.
        basis: `X` or `Z` decodes a circuit from the detectors of that basis alone. `decoder.model.kept_detectors`
            are their numbers. Shots may hold all detectors of the circuit, or only these in ascending order.
        device: `cpu`, or `cuda` for an NVIDIA GPU.
        settings: further settings of the method, such as `solutions=3`; they override those in the text.

    Examples:
        >>> import equifactor as ef
        >>> decoder = ef.decoding.Decoder([[1, 1, 0], [0, 1, 1]], 0.1, [[1, 0, 0]], method="min-sum")
        >>> result = decoder.decode([[1, 0], [1, 1]], corrections=True)
        >>> result.corrections.tolist(), result.flips.tolist()
        ([[1, 0, 0], [0, 1, 0]], [[True], [False]])
    """

    def __init__(
        self,
        checks: Any,
        priors: ArrayLike | DecodingMethod | None = None,
        observables: Any = None,
        method: str | DecodingMethod | None = None,
        *,
        basis: str | None = None,
        device: str = "cpu",
        **settings: Any,
    ) -> None:
        if isinstance(priors, (str, DecodingMethod)):
            if method is not None or observables is not None:
                raise OptionError(f"priors must be probabilities, found {format_value(str(priors))}.")
            priors, method = None, priors
        if isinstance(observables, (str, DecodingMethod)):
            raise OptionError(
                f"observables must be a matrix, found {format_value(str(observables))}. Pass the method by its name: "
                f"method={str(observables)!r}."
            )
        for name in settings.keys() - {f.name for f in dataclasses.fields(OptimalDecoding)}:
            if near := did_you_mean(name, _ARGUMENTS):
                raise OptionError(f"Decoder has no argument {name}; {near.rstrip()}")
        self.method = decoding_method(default_method(device) if method is None else method, settings)
        if is_source(checks):
            if observables is not None:
                raise OptionError("A model or a file has its own observables. Leave out the argument observables.")
            self.model = read_source(checks, priors, basis=basis)
        elif not hasattr(checks, "shape") and not hasattr(checks, "__iter__"):
            raise OptionError(
                f"A code must be a check matrix, an ErrorModel, a file or a circuit, found {brief(checks)}."
            )
        elif basis is not None:
            raise OptionError("Only circuits have a basis, which chooses among their detectors. Leave basis out.")
        elif priors is None:
            raise OptionError("A check matrix needs priors: pass one probability for each column, or one for all.")
        else:
            self.model = ErrorModel.of_matrices(checks, priors, observables)
        self.problem = DecodingProblem.of(self.model, unseen=isinstance(self.method, ClassDecoding))
        if method is None:
            self.method = decoding_method(default_method(device, self.problem), settings)
        if self.method.link:
            self.problem = linked(self.problem)
        _check_osd(self.method, self.problem)
        self.engine = engine_of(device, self.problem, self.method)

    @classmethod
    def from_dem(
        cls,
        source: Any,
        method: str | DecodingMethod | None = None,
        *,
        basis: str | None = None,
        device: str = "cpu",
        **settings: Any,
    ) -> Decoder:
        """Return a decoder for a detector error model or a circuit.

        Args:
            source: a `stim.DetectorErrorModel` or `stim.Circuit`, the text of one, or a path (.dem, .stim).
            method: as for the class.
            basis: as for the class.
            device: as for the class.
            settings: as for the class.
        """
        return cls(read_code(source, basis=basis), method=method, device=device, **settings)

    @property
    def _has_gap(self) -> bool:
        return isinstance(self.method, (PooledDecoding, ClassDecoding))

    def __repr__(self) -> str:
        return f"Decoder({self.model!r}, {self.method})"

    @checks_types("packed", "corrections")
    def decode(
        self,
        shots: ArrayLike,
        *,
        packed: bool = False,
        corrections: bool = False,
        priors: ArrayLike | None = None,
        erasures: ArrayLike | None = None,
        time_limit: float | None = None,
        threads: int | None = None,
        progress: Progress | bool = False,
    ) -> DecodingResult:
        """Decode shots independently of each other. After Ctrl-C or the time limit no shot begins.

        Shots that have begun get half a second and 5 % of the limit more; then they are left undecided.

        Args:
            shots: [N, D] the detectors that fired, as booleans or as zeros and ones. With `packed`, [N, ceil(D/8)]
                bytes in little bit order, as in Stim's format b8. If the model keeps only the detectors of one basis,
                shots may hold all detectors of the circuit, as Stim gives them; `model.kept_detectors` are then used.
            packed: whether the shots are packed.
            corrections: whether to keep the errors found, which takes N times E bytes.
            priors: [N, E] probabilities of the errors in every shot, or [E], in place of those of the model. Nothing is
                compiled again.
            erasures: [N, E] truth values, or [E]: these errors have probability 1/2.
            time_limit: in seconds.
            threads: of the CPU, which give the same answers as one; default all cores.
            progress: True for a bar on the terminal, or a function of (done, total, note).
        """
        if corrections and isinstance(self.method, ClassDecoding):
            raise OptionError("The method class finds flips, not errors. Use the method search for corrections.")
        source, count = shot_source(shots, self.model, packed)
        own = ShotPriors.read(self.problem, count, priors, erasures)
        keep = corrections or (own is not None and not isinstance(self.method, ClassDecoding))
        store = ShotStore(self.problem, source, count, keep, has_gap=self._has_gap)
        store.ratios = None if own is None else own.ratios()
        result = answered(self.engine, store, time_limit, progress, str(self.method), threads)
        if own is not None and result.corrections is not None and (corrections or own.has_hidden):
            errors, changed = own.likeliest(result.corrections)
            done = result.decoded[:, None]
            result = dataclasses.replace(result, corrections=errors * done, flips=result.flips ^ (changed & done))
        return result if corrections else dataclasses.replace(result, corrections=None)

    @checks_types("seed")
    def logical_error_rate(
        self,
        shots: int,
        *,
        seed: int = 0,
        first: int = 0,
        time_limit: float | None = None,
        threads: int | None = None,
        progress: Progress | bool = False,
    ) -> LogicalErrorRate:
        """Measure how often this decoder is wrong about an observable, on shots drawn from its own model.

        Args:
            shots: the number of shots.
            seed: the seed of the shots, which do not depend on the method.
            first: the number of the first shot. Shots n to n + m of a seed are the same in every run, so that a run can
                continue where another one ended.
            time_limit: in seconds; afterwards no shot begins. Shots that have begun get half a second and 5 % of the
                limit more. Those that are undecided then still count, because hard shots take longest and the rate
                would be too low without them: see `LogicalErrorRate.bounds`.
            threads: of the CPU; default all cores.
            progress: True for a bar on the terminal, or a function of (done, total, note).
        """
        if not self.model.num_observables:
            raise OptionError(
                "The code has no observables, so a decoder cannot be wrong about them. Pass observables, or measure "
                "the word errors of a classical code by word_error_rates."
            )
        most = _MOST_BYTES // (32 + 2 * self.model.num_observables)
        whole("shots", shots, 1, most, "Measure more shots in several calls with `first`.")
        whole("first", first, 0)
        sampler = ShotSampler(self.model, seed)
        # As in `DecodingResult.weight`, errors that are certain or flip no detector do not count.
        sampler.ratio[(np.diff(sampler.model.detector_ptr) == 0) | (sampler.model.priors == 1.0)] = 0.0
        truth = np.zeros((shots, self.model.num_observables), bool)
        weight = np.zeros(shots)

        def source(begin: int, end: int) -> BoolArray:
            detectors, truth[begin:end], weight[begin:end] = sampler.sample_weighed(first + begin, first + end)
            return detectors

        store = ShotStore(self.problem, source, shots, keep=False, has_gap=self._has_gap)
        result = answered(self.engine, store, time_limit, progress, str(self.method), threads)
        wrong = result.errors(truth) & result.decoded
        counted = int((result.decoded | result.undecided).sum())
        missed = wrong & ~(result.weight <= weight + _SAME * np.maximum(1.0, np.abs(weight)))
        missed |= wrong & ~result.converged
        return LogicalErrorRate(counted, int(wrong.sum()), result, wrong | result.undecided, int(missed.sum()))


def default_method(device: str, problem: DecodingProblem | None = None) -> str:
    """Return the method of a decoder if none is named."""
    if str(device) != "cpu":
        return "relay"
    return "search(schedule=serial)" if problem is not None and is_hard(problem) else "pooled"


def answered(
    engine: DecodingEngine,
    store: ShotStore,
    time_limit: float | None,
    progress: Progress | bool,
    method: str,
    threads: int | None = 1,
) -> DecodingResult:
    """Decode the shots of a store with an engine, and show a progress bar if one is wanted.

    The time limit includes loading and compiling the kernels. The seconds of the result do not.

    Raises:
        SolveError: if the kernels cannot be compiled within the time limit.
    """
    check_run(time_limit, 0, progress)
    clock, crew = Clock(time_limit), min(num_threads(threads), store.count // FEWEST_SHOTS)
    if isinstance(engine, PlainLanes):
        engine.threads = crew
    elif crew > 1 and isinstance(engine, LaneEngine):
        engine = LaneCrew(engine, crew)
    elif crew > 1 and isinstance(engine, SearchEngine):
        engine = engine.with_threads(crew)
    with bar(progress, "decoding") as report, clock.govern():
        engine.prepare(store)
        begin = Clock.now()

        def tell(done: int) -> None:
            if report is not None:
                report(done, store.count, "finishing the shots in flight" if clock.stopped else "")

        engine.decode(store, clock, tell)
        seconds = Clock.now() - begin
    if store.ratios is not None and store.keep:
        weigh_certain(store)
    problem, decoded = store.problem, store.decoded
    kept = problem.corrections(store.correction) * decoded[:, None] if store.keep else None
    explained = store.converged & store.explicable & decoded
    return DecodingResult(
        (store.flips.astype(bool) ^ problem.certain_flips) & decoded[:, None], explained,
        store.iterations * decoded, store.weight * decoded, kept, decoded, store.undecided, clock.interrupted,
        None if store.proven is None else store.proven & explained, seconds, method,
        np.where(explained, store.gap, 0.0) if len(store.gap) else None,
    )  # fmt: skip


def _check_osd(method: DecodingMethod, problem: DecodingProblem) -> None:
    """Raise `OptionError` if ordered statistics are asked to try pairs among more columns than are free."""
    if method.osd != "cs" or method.osd_order == type(method).osd_order:
        return  # The default means 10 columns, or all if there are fewer.
    if method.osd_order > problem.num_bits - problem.num_checks and method.osd_order > (free := problem.num_free()):
        raise OptionError(
            f"osd_order is {method.osd_order}, and the code has {free} columns that are free: {problem.num_bits} "
            f"columns, less the rank of its checks. Use at most osd_order={free}."
        )


def engine_of(device: str, problem: DecodingProblem, method: DecodingMethod) -> DecodingEngine:
    """Return the engine of a device for a method."""
    if isinstance(method, OptimalDecoding):
        if str(device) != "cpu":
            raise OptionError("The method optimal runs on the CPU only. Use device='cpu', or method='relay'.")
        from equifactor.decoding.optimal_engine import OptimalEngine

        return OptimalEngine(problem, method)
    if str(device) != "cpu":
        if isinstance(method, (PooledDecoding, ClassDecoding)):
            raise OptionError(f"The method {method.name} runs on the CPU only. Use device='cpu', or method='relay'.")
        from equifactor.decoding.gpu_engine import GpuEngine

        return GpuEngine(problem, method, device)
    if isinstance(method, SearchDecoding):
        return SearchEngine(problem, method)
    if isinstance(method, ClassDecoding):
        from equifactor.decoding.class_sums import ClassEngine

        return ClassEngine(problem, method)
    from equifactor.decoding import plain_lanes

    if plain_lanes.applies_to(method) and plain_seconds_left("decoding") > 0.0:
        return plain_lanes.PlainLanes(problem, method)
    return LaneEngine(problem, method)
