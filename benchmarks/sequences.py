"""Time of filtering, smoothing and decoding, beside hmmlearn and pyAgrum where they are installed.

    python -m benchmarks.sequences hmm --slices 1000000      # 50 states, 20 symbols
    python -m benchmarks.sequences chains --chains 18        # binary chains, each observed with its neighbour

Every call is made twice, and both times are printed, in seconds of processor time: the first one loads compiled loops,
or compiles them where there is no cache. The other package goes second, in the same process.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import equifactor as ef


def report(name: str, call: Callable[[], Any]) -> Any:
    """Print the processor time of two calls; return the answer."""
    seconds = []
    for _ in range(2):
        begin = time.process_time()
        answer = call()
        seconds.append(time.process_time() - begin)
    print(f"{name:40} {seconds[0]:8.2f} {seconds[1]:8.2f}", flush=True)
    return answer


def hmm(slices: int, states: int, symbols: int) -> None:
    """Compare a hidden Markov model with hmmlearn."""
    rng = np.random.default_rng(0)
    start, step, seen = (rng.dirichlet(np.ones(d), size=n) for n, d in ((1, states), (states,) * 2, (states, symbols)))
    x = rng.integers(0, symbols, slices)
    network = ef.DynamicNetwork({"z": start[0], "x": ("z", seen)}, {"z": ("z[t-1]", step)})
    score = report("equifactor log_likelihood", lambda: network.log_likelihood({"x": x}))
    report("equifactor filter", lambda: network.filter({"x": x})["z"])
    smooth = report("equifactor smooth", lambda: network.smooth({"x": x})["z"])
    path = report("equifactor decode", lambda: network.decode({"x": x}))
    few = x[: slices // 5]
    fitted = report(f"equifactor fit, 3 rounds, {len(few)} slices", lambda: network.fit({"x": few}, iterations=3))
    if find_spec("hmmlearn") is None:
        return
    for way in ("scaling", "log"):
        model = importlib.import_module("hmmlearn.hmm").CategoricalHMM(states, implementation=way)
        model.startprob_, model.transmat_, model.emissionprob_ = start[0], step, seen
        other = report(f"hmmlearn score, {way}", partial(model.score, x[:, None]))
        p = report(f"hmmlearn predict_proba, {way}", partial(model.predict_proba, x[:, None]))
        best, _ = report(f"hmmlearn decode, {way}", partial(model.decode, x[:, None]))
        fit = importlib.import_module("hmmlearn.hmm").CategoricalHMM(
            states, implementation=way, n_iter=3, tol=-np.inf, init_params=""
        )

        def learn(fit: Any = fit, model: Any = model) -> None:
            for name in ("startprob_", "transmat_", "emissionprob_"):
                setattr(fit, name, getattr(model, name).copy())
            fit.fit(few[:, None])

        report(f"hmmlearn fit, {way}", learn)
        d = abs(fit.transmat_ - fitted.network.transition.cpt("z").values).max()
        worst = abs(other - score), abs(p - smooth).max(), abs(best - path.log_score), d
        print("differences: " + ", ".join(f"{x:.1e}" for x in worst))


def chains(number: int, slices: int) -> None:
    """Filter binary chains; pyAgrum answers about the last slice of the unrolled network."""
    rng = np.random.default_rng(5)

    def rows(*shape: int) -> Any:
        table = rng.uniform(0.05, 1.0, shape)
        return table / table.sum(axis=-1, keepdims=True)

    first = {f"x{k}": rows(2) for k in range(number)}
    first |= {f"y{k}": ([f"x{k}", f"x{(k + 1) % number}"], rows(2, 2, 2)) for k in range(number)}
    network = ef.DynamicNetwork(first, {f"x{k}": (f"x{k}[t-1]", rows(2, 2)) for k in range(number)})
    seen = {f"y{k}": rng.integers(0, 2, slices) for k in range(number)}
    found = report(f"equifactor filter, {slices} slices", lambda: network.filter(seen))
    if find_spec("pyagrum") is None:
        return
    unrolled = network.unroll(slices).to_pyagrum()
    evidence = {f"{name}[{t}]": int(x) for name, own in seen.items() for t, x in enumerate(own)}
    targets = [f"x{k}[{slices - 1}]" for k in range(number)]

    def posterior() -> list[Any]:
        inference = importlib.import_module("pyagrum").LazyPropagation(unrolled)
        inference.setEvidence(evidence)
        inference.setTargets(set(targets))
        inference.makeInference()
        return [inference.posterior(name).toarray() for name in targets]

    try:
        other = report("pyAgrum, the last slice alone", posterior)
    except Exception as error:  # It runs out of memory, or calls the evidence impossible.
        print(f"pyAgrum, the last slice alone: {error}")
        return
    print(f"difference: {max(abs(p - found[f'x{k}'][-1]).max() for k, p in enumerate(other)):.1e}")


def main() -> None:
    """Run one comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["hmm", "chains"])
    parser.add_argument("--slices", type=int, default=1000)
    parser.add_argument("--states", type=int, default=50)
    parser.add_argument("--symbols", type=int, default=20)
    parser.add_argument("--chains", type=int, default=18)
    given = parser.parse_args()
    if given.what == "hmm":
        hmm(given.slices, given.states, given.symbols)
    else:
        chains(given.chains, given.slices)


if __name__ == "__main__":
    main()
