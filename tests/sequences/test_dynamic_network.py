"""Dynamic networks against their unrolled networks, which are solved by elimination."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import equifactor as ef
from equifactor.sequences import chain_steps, slice_model, slice_sums
from equifactor.sequences.observed_rows import read_sequences

WEATHER = ef.DynamicNetwork(
    first={
        "rain": {"no": 0.5, "yes": 0.5},
        "umbrella": ("rain", {"no": {"no": 0.8, "yes": 0.2}, "yes": {"no": 0.1, "yes": 0.9}}),
    },
    then={"rain": ("rain[t-1]", {"no": {"no": 0.7, "yes": 0.3}, "yes": {"no": 0.3, "yes": 0.7}})},
)


def random_network(rng: np.random.Generator, size: int) -> ef.DynamicNetwork:
    """Return a network with zeros, hidden parts, and tables of the first slice that differ from the others."""
    cards = rng.integers(2, 4, size)
    names = [f"v{i}" for i in range(size)]

    def table(parents: list[int], i: int) -> np.ndarray:
        rows = rng.dirichlet(np.ones(cards[i]) * 0.7, size=tuple(cards[parents]))
        if cards[i] > 2 and rng.random() < 0.3:
            rows[..., 0] = 0.0
            rows /= rows.sum(axis=-1, keepdims=True)
        return rows

    first: dict[str, Any] = {}
    then: dict[str, Any] = {}
    for i, name in enumerate(names):
        own = [j for j in range(i) if rng.random() < 0.4][:2]
        first[name] = ([names[j] for j in own], table(own, i)) if own else table([], i)
        if rng.random() < 0.6 or i == 0:
            own = [j for j in range(i) if rng.random() < 0.3][:1]
            before = [j for j in range(size) if rng.random() < 0.3][:2] or ([0] if i == 0 else [])
            parents = [names[j] for j in own] + [f"{names[j]}[t-1]" for j in before]
            then[name] = (parents, table(own + before, i)) if parents else table([], i)
    return ef.DynamicNetwork(first, then, {n: int(d) for n, d in zip(names, cards, strict=True)})


def partly_observed(rng: np.random.Generator, network: ef.DynamicNetwork, length: int, n: int) -> list[dict[str, Any]]:
    """Return drawn sequences in which a third of the values is missing, and a third is weights that allow the value."""

    def seen(name: str, x: int) -> Any:
        weights = rng.random(len(network.states[name])) * (rng.random(len(network.states[name])) < 0.7)
        weights[x] += 0.1
        return (x, None, weights.tolist())[rng.integers(3)]

    drawn = network.sample(length, n, seed=int(rng.integers(1000)))
    return [{v: [seen(v, x) for x in xs] for v, xs in one.items()} for one in drawn]


def unrolled(network: ef.DynamicNetwork, seen: dict[str, Any], length: int, until: int | None = None) -> Any:
    evidence = {
        f"{n}[{t}]": x
        for n, xs in seen.items()
        for t, x in enumerate(xs)
        if x is not None and (until is None or t <= until)
    }
    return ef.solve(network.unroll(length), "MAR", "exact", evidence=evidence), evidence


@pytest.fixture(params=["matrix", "tables", "compiled"])
def passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every road of the sums: steps as one matrix, as products of tables, and compiled."""
    if request.param == "tables":
        monkeypatch.setattr(slice_model, "DENSE_STATES", 0)
    if request.param == "compiled":
        monkeypatch.setattr(slice_sums, "_LOADING", 0.0)


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize("seed", range(4))
def test_answers_equal_those_of_the_unrolled_network(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, int(rng.integers(1, 6)))
    sequences = [*partly_observed(rng, network, 3, 2), *partly_observed(rng, network, 1, 1)]
    answers = zip(*(f(sequences) for f in (network.smooth, network.filter, network.decode)), strict=True)
    for seen, (smooth, filtered, decoded) in zip(sequences, answers, strict=True):
        length = len(smooth)
        whole, evidence = unrolled(network, seen, length)
        assert smooth.log_z == pytest.approx(whole.log_z, abs=1e-10)
        assert filtered.log_z == pytest.approx(whole.log_z, abs=1e-10)
        for t in range(length):
            part, _ = unrolled(network, seen, length, until=t)
            for name in network.names:
                np.testing.assert_allclose(smooth[name][t], whole.marginals[f"{name}[{t}]"], atol=1e-10)
                np.testing.assert_allclose(filtered[name][t], part.marginals[f"{name}[{t}]"], atol=1e-10)
        best = ef.solve(network.unroll(length), "MAP", "exact", evidence=evidence)
        assert decoded.log_score == pytest.approx(best.log_score, abs=1e-10)
        weighted = network.unroll(length).condition({v: x for v, x in evidence.items() if isinstance(x, list)})
        assert weighted.log_score(decoded.numbers.ravel()) == pytest.approx(best.log_score, abs=1e-10)


def factorial_network(rng: np.random.Generator) -> ef.DynamicNetwork:
    """Return chains of one or two variables with two to four states, seen together."""
    cards = {"a": 3, "b": 2, "c": 2, "d": 2, "e": 4, "y": 2, "z": 3}

    def rows(*names: str) -> np.ndarray:
        return rng.dirichlet(np.ones(cards[names[-1]]), size=tuple(cards[v] for v in names[:-1]))

    first = {v: rows(v) for v in "abcde"}
    first |= {"y": (["a", "e"], rows("a", "e", "y")), "z": (["b", "c", "d"], rows("b", "c", "d", "z"))}
    then: dict[str, Any] = {v: (f"{v}[t-1]", rows(v, v)) for v in "ade"}
    then |= {"b": (["b[t-1]", "c[t-1]"], rows("b", "c", "b")), "c": (["b", "c[t-1]"], rows("b", "c", "c"))}
    return ef.DynamicNetwork(first, then, cards)


@pytest.mark.parametrize("rows", [64, 8])
def test_passes_over_factorial_models_equal_products_of_tables(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """The groups of a state are small here, so that variables are seen together across all of them."""
    monkeypatch.setattr(slice_model, "DENSE_STATES", 0)
    monkeypatch.setattr(chain_steps, "_ROWS", rows)
    rng = np.random.default_rng(rows)
    network = factorial_network(rng)
    sequences = [*partly_observed(rng, network, 6, 3), {"a": [0, 1, 2]}]
    expected = [f(sequences) for f in (network.filter, network.smooth)]
    counts = network.fit(sequences, iterations=1).network
    monkeypatch.setattr(slice_sums, "_LOADING", 0.0)
    assert slice_sums.Observed(network.model(read_sequences(network.first.structure, 2)), np.full((1, 2, 7), -1)).chains
    for one, other in zip(expected, [f(sequences) for f in (network.filter, network.smooth)], strict=True):
        for wanted, found in zip(one, other, strict=True):
            assert found.log_z == pytest.approx(wanted.log_z, abs=1e-11)
            for name in network.names:
                np.testing.assert_allclose(found[name], wanted[name], atol=1e-12)
    compiled = network.fit(sequences, iterations=1).network
    for name in network.names:
        np.testing.assert_allclose(compiled.transition.cpt(name).values, counts.transition.cpt(name).values, atol=1e-10)


def test_a_few_of_many_chains_may_be_observed() -> None:
    """Ten chains are merged into groups for products; the sums failed if only a part of a group was observed."""
    first: dict[str, Any] = {f"x{k}": [0.9, 0.1] for k in range(10)} | {"y": ("x0", [[0.8, 0.2], [0.3, 0.7]])}
    stays = {f"x{k}": (f"x{k}[t-1]", [[0.9, 0.1], [0.2, 0.8]]) for k in range(10)}
    alone = ef.DynamicNetwork({v: first[v] for v in ("x0", "y")}, {"x0": stays["x0"]})
    seen = {"y": [0, 1, 1]}
    together = ef.DynamicNetwork(first, stays)
    np.testing.assert_allclose(together.filter(seen)["x0"], alone.filter(seen)["x0"], atol=1e-12)
    np.testing.assert_allclose(together.smooth(seen)["x0"], alone.smooth(seen)["x0"], atol=1e-12)


@pytest.mark.usefixtures("passes")
def test_expected_counts_equal_those_of_the_unrolled_network() -> None:
    rng = np.random.default_rng(5)
    network = random_network(rng, 4)
    sequences = [*partly_observed(rng, network, 3, 2), *partly_observed(rng, network, 2, 1)]
    counts: dict[tuple[str, bool], np.ndarray] = {}
    for seen in sequences:
        length = len(next(iter(seen.values())))
        result, _ = unrolled(network, seen, length)
        for t in range(length):
            for name in network.names:
                table = (network.transition if t else network.first).cpt(name)
                scope = [f"{p.removesuffix('[t-1]')}[{t - str(p).endswith('[t-1]')}]" for p in map(str, table.names)]
                key = name, t > 0 and name not in network.shared
                counts[key] = counts.get(key, 0.0) + np.asarray(result.joint(*scope).values)
    fitted = network.fit(sequences, iterations=1).network
    for (name, later), count in counts.items():
        total = count.sum(axis=-1, keepdims=True)
        before, after = ((n.transition if later else n.first).cpt(name).values for n in (network, fitted))
        expected = np.where(total > 0.0, count / np.where(total > 0.0, total, 1.0), before)
        np.testing.assert_allclose(after, expected, atol=1e-9)


def test_rounds_of_em_never_lower_the_likelihood_and_complete_data_need_one() -> None:
    data = WEATHER.sample(30, 4, seed=1)
    hidden = [{"umbrella": one["umbrella"]} for one in data]
    fitted = WEATHER.fit(hidden, iterations=8, tolerance=0.0)
    assert np.diff(fitted.log_likelihoods).min() > -1e-9
    complete = WEATHER.fit(data)
    assert complete.converged
    assert len(complete.log_likelihoods) == 2
    assert complete.log_likelihood == pytest.approx(sum(complete.network.log_likelihood(data)))
    flips = sum(a != b for one in data for a, b in zip(one["rain"], one["rain"][1:], strict=False))
    rows = complete.network.transition.cpt("rain").values
    stay = [
        sum(a == b == s for one in data for a, b in zip(one["rain"], one["rain"][1:], strict=False))
        for s in ("no", "yes")
    ]
    assert flips + sum(stay) == 4 * 29
    assert rows[0, 0] == pytest.approx(stay[0] / sum(x == "no" for one in data for x in one["rain"][:-1]))


def test_symmetrical_tables_are_reported() -> None:
    even = ef.DynamicNetwork(
        {"s": [0.5, 0.5], "o": ("s", [[0.5, 0.5], [0.5, 0.5]])}, {"s": ("s[t-1]", [[0.5, 0.5], [0.5, 0.5]])}
    )
    assert even.fit({"o": [0, 1, 0, 1]}, iterations=3).message.startswith("The first round changed nothing")


def test_all_forms_of_observations_agree() -> None:
    pd = pytest.importorskip("pandas")
    columns = {"umbrella": ["yes", None, "no"]}
    forms = [
        columns,
        pd.DataFrame(columns),
        [{"umbrella": "yes"}, {}, {"umbrella": "no"}],
        [{"umbrella": "yes"}, {"umbrella": None}, {"umbrella": "no"}],
        np.array([[-1, 1], [-1, -1], [-1, 0]]),
        {"umbrella": np.array(["yes", None, "no"], object)},
    ]
    expected = WEATHER.smooth(columns)["rain"]
    for form in forms:
        np.testing.assert_array_equal(WEATHER.smooth(form)["rain"], expected)
    many = WEATHER.smooth([columns, {"umbrella": ["no"]}])
    assert [len(one) for one in many] == [3, 1]
    np.testing.assert_allclose(many[0]["rain"], expected)


def test_all_forms_of_weights_agree() -> None:
    pd = pytest.importorskip("pandas")
    rows = [[0.2, 0.8], None, [0.0, 1.0], [1.0, 3.0]]
    by_state = [{"yes": 0.8, "no": 0.2}, None, "yes", {"no": 1.0, "yes": 3.0}]
    forms = [
        {"umbrella": rows},
        {"umbrella": by_state},
        {"umbrella": np.array([row or [np.nan, np.nan] for row in rows])},
        pd.DataFrame({"umbrella": by_state}),
        [{"umbrella": value} for value in by_state],
    ]
    whole = ef.solve(WEATHER.unroll(4), evidence={f"umbrella[{t}]": x for t, x in enumerate(by_state) if x is not None})
    for form in forms:
        one = WEATHER.smooth(form)
        assert one.log_z == pytest.approx(whole.log_z)
        np.testing.assert_allclose(one["rain", 1]["yes"], whole.marginals["rain[1]"][1])
        assert WEATHER.smooth(form, solver="exact").log_z == pytest.approx(whole.log_z)
    sharp = WEATHER.smooth({"rain": np.eye(2)[[0, 1]]})
    np.testing.assert_allclose(sharp["umbrella"], WEATHER.smooth({"rain": ["no", "yes"]})["umbrella"])
    assert WEATHER.decode({"umbrella": [[0.0, 0.0]]}).status is ef.Status.ZERO_PROBABILITY


def test_names_may_end_in_the_present_slice_and_answers_print_themselves() -> None:
    umbrella = WEATHER.first.cpt("umbrella").values
    same = ef.DynamicNetwork(
        WEATHER.first,
        {"rain[t]": ("rain[t-1]", WEATHER.transition.cpt("rain").values), "umbrella[t]": ("rain[t]", umbrella)},
    )
    seen = {"umbrella": ["yes", "no"]}
    np.testing.assert_array_equal(same.smooth(seen)["rain"], WEATHER.smooth(seen)["rain"])
    assert str(same.decode(seen)).splitlines()[-1].split() == ["1", "no", "no"]
    assert str(WEATHER.fit(WEATHER.sample(9)[0])).startswith("converged after 1 round, ln p ")
    with pytest.raises(ef.OptionError, match="Ask the unrolled network"):
        WEATHER.filter(seen, do={"rain": "yes"})
    with pytest.raises(ef.ModelError, match=r"Pass its unroll\(length\)"):
        ef.solve(WEATHER)  # type: ignore[call-overload]


def test_predictions_follow_the_observations() -> None:
    seen = {"umbrella": ["yes", "yes"]}
    ahead = WEATHER.predict(seen, 3)
    longer = WEATHER.filter({"umbrella": ["yes", "yes", None, None, None]})
    np.testing.assert_allclose(ahead["rain"], longer["rain"][2:])
    assert ahead["rain", 2] == pytest.approx(dict(zip(("no", "yes"), longer["rain"][2], strict=True)))
    assert ahead.to_frame()["slice"].tolist() == [2, 3, 4]


def test_a_long_sequence_is_computed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    states = np.random.default_rng(0).integers(-1, 2, (700, 2))
    states[:, 0] = -1
    whole = WEATHER.smooth(states), WEATHER.decode(states)
    monkeypatch.setattr(slice_sums, "_BLOCK_ENTRIES", 2**6)
    np.testing.assert_allclose(WEATHER.smooth(states)["rain"], whole[0]["rain"], atol=1e-12)
    assert WEATHER.decode(states)["rain"] == whole[1]["rain"]


def test_impossible_observations_have_a_status() -> None:
    still = ef.DynamicNetwork({"s": [1.0, 0.0]}, {"s": ("s[t-1]", [[1.0, 0.0], [0.0, 1.0]])})
    answers = still.smooth([{"s": [0, 1]}, {"s": [0, 0]}])
    assert answers[0].status is ef.Status.ZERO_PROBABILITY
    assert answers[0].log_z == -np.inf
    with pytest.raises(ef.ModelError, match="impossible"):
        answers[0]["s"]
    np.testing.assert_array_equal(answers[1]["s"], [[1.0, 0.0], [1.0, 0.0]])
    assert still.decode({"s": [0, 1]}).status is ef.Status.ZERO_PROBABILITY
    with pytest.raises(ef.ModelError, match="Sequence 1 is impossible"):
        still.fit([{"s": [0, 0]}, {"s": [1, 1]}])


def test_another_solver_gets_the_unrolled_network() -> None:
    seen = {"umbrella": ["yes", None, "no"]}
    exact, given = WEATHER.smooth(seen), WEATHER.smooth(seen, solver="exact")
    np.testing.assert_allclose(given["rain"], exact["rain"])
    assert given.log_z == pytest.approx(exact.log_z)
    assert WEATHER.decode(seen, solver="exact")["rain"] == WEATHER.decode(seen)["rain"]
    np.testing.assert_allclose(WEATHER.filter(seen, solver="exact")["rain"], WEATHER.filter(seen)["rain"])
    with pytest.raises(ef.OptionError, match="solver="):
        WEATHER.smooth(seen, time_limit=1.0)


def test_a_large_slice_goes_to_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    from equifactor.sequences import dynamic_network

    expected = WEATHER.smooth({"umbrella": ["yes", "no"]})["rain"]
    seen = [{"umbrella": ["yes", None, "no"]}, {"umbrella": ["yes", [0.2, 0.8]], "rain": [None, "no"]}]
    ahead, total = WEATHER.predict(seen, 2), WEATHER.log_likelihood(seen)
    fitted = WEATHER.fit(seen, iterations=3)
    monkeypatch.setattr(dynamic_network, "_MOST_STATES", 1.0)
    np.testing.assert_allclose(WEATHER.smooth({"umbrella": ["yes", "no"]})["rain"], expected)
    for found, wanted in zip(WEATHER.predict(seen, 2), ahead, strict=True):
        assert found.first == wanted.first
        np.testing.assert_allclose(found["umbrella"], wanted["umbrella"])
    np.testing.assert_allclose(WEATHER.log_likelihood(seen), total)
    solved = WEATHER.fit(seen, iterations=3)
    np.testing.assert_allclose(solved.log_likelihoods, fitted.log_likelihoods)
    for name in WEATHER.names:
        rows = solved.network.transition.cpt(name).values
        np.testing.assert_allclose(rows, fitted.network.transition.cpt(name).values, atol=1e-9)


def test_the_members_of_a_plate_share_their_tables_in_time() -> None:
    stays = {"up": {"up": 0.9, "down": 0.1}, "down": {"up": 0.4, "down": 0.6}}
    network = ef.DynamicNetwork(
        {"on[pump]": {"up": 0.8, "down": 0.2}, "load[pump]": ("on[pump]", [[0.3, 0.7], [0.9, 0.1]])},
        {"on[pump]": ("on[pump][t-1]", stays)},
        {"load[pump]": 2},
        plates={"pump": ["a", "b"]},
    )
    assert network.transition.parents("on[b]") == ("on[b][t-1]",)
    apart = ef.DynamicNetwork(network.first.graph, {f"on[{k}]": (f"on[{k}][t-1]", stays) for k in "ab"})
    seen = {"load[a]": [0, 1, 1], "on[b]": ["down", None, "up"]}
    np.testing.assert_allclose(network.smooth(seen)["on[a]"], apart.smooth(seen)["on[a]"])
    data = [{"on[a]": [0, 0, 1, 1], "on[b]": [0, 1, 0, 0], "load[a]": [0] * 4, "load[b]": [0, 1, 1, 1]}]
    for fitted in (network.fit(data).network, network.fit(data, solver="exact").network):
        for k in "ab":
            rows = fitted.transition.cpt(f"on[{k}]").values
            np.testing.assert_allclose(rows, [[2 / 4, 2 / 4], [1 / 2, 1 / 2]])
            assert fitted.first.cpt(f"load[{k}]").values[0, 0] == pytest.approx(3 / 5)
        assert fitted.first.cpt("on[a]").values[0] == 1.0


def test_a_solver_without_ln_z_smooths() -> None:
    found = WEATHER.smooth({"umbrella": ["yes", "no"]}, solver="gibbs(chains=2, burn_in=5, samples=20)")
    assert len(found["rain"]) == 2
    assert np.isnan(found.log_z)


@pytest.mark.parametrize(
    ("then", "message"),
    [
        ({"rain": [0.5, 0.5]}, "No table of then="),
        ({"snow": [0.5, 0.5]}, "'snow'"),
        ({"rain": (["rain[t-1]", "fog[t-1]"], [[[0.5, 0.5]]])}, "fog"),
        ({"rain": ("rain[t-1]", [[0.5, 0.4], [0.5, 0.5]])}, "0.9"),
        (3, "mapping"),
    ],
)
def test_tables_that_do_not_fit_are_refused(then: Any, message: str) -> None:
    with pytest.raises(ef.ModelError, match=message):
        ef.DynamicNetwork({"rain": [0.5, 0.5]}, then)


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        ({"umbrella": ["maybe"]}, "maybe"),
        ({"umbrella": "yes"}, "list"),
        ({"fog": [1]}, "fog"),
        ({"umbrella": [[0.1, 0.2, 0.3]]}, "row 0, column umbrella: .* one weight >= 0"),
        ({"umbrella": np.array([[0.1, 0.2], [0.3, -0.1]])}, "row 1, column umbrella"),
        ({"umbrella": np.array([[0.1, 0.2], [0.3, np.nan]])}, "row 1, column umbrella"),
        ({"umbrella": [[0.1, 0.2]], "rain": ["no", "no"]}, "different lengths"),
        ([], "at least one slice"),
        (0, "at least one slice"),
        ("yes", "Observations must be"),
        (np.zeros((2, 3), int), r"\[N, 2\]"),
    ],
)
def test_observations_that_do_not_fit_are_refused(seen: Any, message: str) -> None:
    with pytest.raises(ef.ModelError, match=message):
        WEATHER.filter(seen)


def test_states_that_sums_lose_are_not_called_impossible() -> None:
    tiny = 1e-200
    rows = [[1.0 - tiny, tiny, 0.0], [tiny, 1.0 - 1e-9 - tiny, 1e-9]]
    still = ef.DynamicNetwork({"s": [0.5, 0.5], "o": ("s", rows)}, {"s": ("s[t-1]", np.eye(2))})
    seen = {"o": [0, 0, 2]}  # the last observation needs the state that the first two make 1e400 times less likely
    for question in (still.smooth, still.filter, still.log_likelihood, still.fit):
        with pytest.raises(ef.SolveError, match="1e308"):
            question(seen)
    assert still.decode(seen)["s"] == [1, 1, 1]
    assert still.smooth(seen, solver="exact").log_z == pytest.approx(np.log(0.5e-9) + 2 * np.log(tiny))


@pytest.mark.parametrize("arguments", [(0,), (2.5,), (3, -1), (3, True)])
def test_samples_need_whole_numbers(arguments: Any) -> None:
    with pytest.raises(ef.ModelError, match="whole number"):
        WEATHER.sample(*arguments)


@pytest.mark.parametrize(
    "question",
    [
        lambda: WEATHER.filter(2**70),
        lambda: WEATHER.smooth(-1),
        lambda: WEATHER.predict({"umbrella": ["yes"]}, True),
        lambda: WEATHER.predict({"umbrella": ["yes"]}, 10**60),
        lambda: WEATHER.sample(10**60),
        lambda: WEATHER.sample(2, 10**60),
        lambda: WEATHER.unroll(10**60),
        lambda: WEATHER.fit({"umbrella": ["yes"]}, pseudo_count=10**60),
    ],
)
def test_numbers_without_a_meaning_are_refused(question: Any) -> None:
    with pytest.raises(ef.ModelError, match="must be"):
        question()


def test_lists_of_fractions_are_weights_of_a_slice() -> None:
    slices = [{"umbrella": [0.1, 0.9]}, {"umbrella": np.array([0.3, 0.7])}]
    expected = WEATHER.filter({"umbrella": np.array([[0.1, 0.9], [0.3, 0.7]])})
    np.testing.assert_allclose(WEATHER.filter(slices)["rain"], expected["rain"])
