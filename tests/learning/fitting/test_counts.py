"""Tables by counting: maximum likelihood and Dirichlet priors."""

from __future__ import annotations

import numpy as np
import pytest
from networks import draw, lawn

import equifactor as ef
from equifactor import FactorGraph, ModelError, NoisyOr, OptionError, Parity, Status


def test_frequencies_are_the_tables() -> None:
    graph, rows = lawn(), draw(lawn(), 500)
    fitted = ef.fit(graph, rows, "counts", prior="none")
    grass, rain, sprinkler = rows[:, 2], rows[:, 0], rows[:, 1]
    for g, r, s in np.ndindex(3, 2, 2):
        given = (rain == r) & (sprinkler == s)
        assert np.exp(fitted.graph.log_table(0))[g, r, s] == pytest.approx(np.mean(grass[given] == g))
    assert np.exp(fitted.graph.log_table(1)) == pytest.approx(np.bincount(rain) / 500)
    assert fitted.log_likelihood == pytest.approx(np.mean(fitted.graph.log_score(rows)))
    assert fitted.score(rows) == pytest.approx(fitted.log_likelihood)
    assert (fitted.status, fitted.method, fitted.num_rows) == (Status.EXACT, 'counts(prior="none")', 500)


@pytest.mark.parametrize(("prior", "per_entry"), [(12.0, 1.0), ("k2", 1.0), ("bdeu", 1 / 12), (0, 0.0), (None, 0.0)])
def test_priors_are_counts_before_any_data(prior: float | str | None, per_entry: float) -> None:
    rows = np.array([[0, 0, 0]] * 3 + [[0, 0, 1], [1, 0, 1], [1, 1, 2], [0, 1, 2]])
    fitted = ef.fit(lawn(), rows, prior=prior)
    wanted = np.array([3.0, 1.0, 0.0]) + per_entry
    assert np.exp(fitted.graph.log_table(0))[:, 0, 0] == pytest.approx(wanted / wanted.sum())


def test_configurations_without_data_are_uniform() -> None:
    fitted = ef.fit(lawn(), np.array([[0, 0, 0]]), prior=0)
    assert np.exp(fitted.graph.log_table(0))[:, 1, 1] == pytest.approx(1 / 3)
    assert np.exp(fitted.graph.log_table(0))[:, 0, 0].tolist() == [1.0, 0.0, 0.0]
    assert "4 configurations of parents do not occur in the data" in fitted.message
    assert fitted.score(np.array([[1, 0, 0]])) == -np.inf
    assert (
        "-inf (a row has probability zero)"
        in dict(ef.fit(lawn(), np.array([[0, 0, 0]]), prior=0, validation=np.array([[1, 0, 0]])).facts()).values()
    )


def test_samples_are_data() -> None:
    drawn = ef.sample(lawn(), 2000, seed=1)
    fitted = ef.fit(lawn(), drawn)
    assert fitted.num_rows == 2000
    assert np.exp(fitted.graph.log_phi) == pytest.approx(np.exp(lawn().log_phi), abs=0.1)


def test_tied_factors_share_one_table() -> None:
    chain = FactorGraph([2] * 4, [([0], [1, 1]), *(([i, i + 1], [1] * 4) for i in range(3))])
    rows = np.random.default_rng(0).integers(0, 2, (50, 4))
    fitted = ef.fit(chain, rows, tied=[[1, 2, 3]], prior=2)
    pairs = np.concatenate([rows[:, i : i + 2] for i in range(3)])
    counts = np.zeros((2, 2)) + 0.5
    np.add.at(counts, tuple(pairs.T), 1)
    for a in (1, 2, 3):
        assert np.exp(fitted.graph.log_table(a)) == pytest.approx(counts / counts.sum(axis=1, keepdims=True))


def test_fixed_factors_and_sentences_stay() -> None:
    graph = lawn()
    rows = draw(graph, 100)
    fitted = ef.fit(graph, rows, fixed=[0])
    assert np.array_equal(fitted.graph.log_table(0), graph.log_table(0))
    assert fitted.log_likelihood == pytest.approx(np.mean(fitted.graph.log_score(rows)))
    sentences = FactorGraph(
        [2] * 4, [([0], [1, 1]), ([1], [3, 1]), ([2, 0, 1], NoisyOr(0.1, [0.2, 0.3])), ([0, 2, 3], Parity())]
    )
    rows = np.array([[0, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]])
    fitted = ef.fit(sentences, rows, "counts", prior=0)
    assert fitted.graph.factor(2) == sentences.factor(2)
    assert fitted.message == "2 structured factors (noisy_or, parity) are not learned."
    assert np.exp(fitted.graph.log_table(0)) == pytest.approx([2 / 3, 1 / 3])
    assert fitted.log_likelihood == pytest.approx(np.mean(fitted.graph.log_score(rows)))
    assert fitted.score(rows) == pytest.approx(fitted.log_likelihood)


@pytest.mark.parametrize(
    ("graph", "settings", "words"),
    [
        (FactorGraph([2, 2], [([0], [1, 1]), ([1], [1, 1]), ([0, 1], [1] * 4)]), {}, "has 3 factors for 2 variables"),
        (FactorGraph([2, 2], [([0, 1], [1] * 4), ([1, 0], [1] * 4)]), {}, "directed cycle at variable 0"),
        (
            FactorGraph([2, 2], [([0], [1, 1]), ([0], [1, 1])]),
            {},
            "All variables of factor 1 have another factor already",
        ),
        (FactorGraph([2, 2], [([0], [1, 1]), ([0, 1], [1] * 4)]), {"fixed": [1]}, "do not sum to 1"),
        (FactorGraph([2, 2], [([0], [1, 1]), ([0, 1], NoisyOr(0.1, [0.2]))]), {}, "do not sum to 1"),
    ],
)
def test_graphs_that_are_not_networks_are_refused(graph: FactorGraph, settings: dict, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        ef.fit(graph, np.zeros((3, 2), int), "counts", **settings)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"tied": [[1, 2]]}, OptionError, "factor 2 has shape"),
        ({"tied": [[0, 1], [1, 2]]}, OptionError, "tied twice|has shape"),
        ({"tied": [[7]]}, ModelError, "The model has no factor 7"),
        ({"tied": 3}, OptionError, "list of factor numbers"),
        ({"tied": [[1]], "fixed": [1]}, OptionError, "tied and fixed"),
        ({"prior": -1}, OptionError, "at least 0"),
        ({"prior": "k3"}, OptionError, "must be a number or one of"),
        ({"priors": 1}, OptionError, "did you mean prior"),
        ({"method": "count"}, OptionError, "did you mean counts"),
        ({"seed": 0.5}, OptionError, "whole number"),
        ({"time_limit": -1}, OptionError, "seconds"),
        ({"progress": "yes"}, OptionError, "progress"),
        ({"validation": 2.0}, OptionError, "share of the 5 rows"),
    ],
)
def test_wrong_arguments(settings: dict, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ef.fit(lawn(), draw(lawn(), 5), **settings)


def test_missing_values_are_refused() -> None:
    with pytest.raises(ModelError, match=r"row 1 has no value of grass\. Use the method em"):
        ef.fit(lawn(), np.array([[0, 0, 0], [0, 0, -1]]), "counts")
    with pytest.raises(ModelError, match="has evidence"):
        ef.fit(lawn().condition({"rain": 0}), np.array([[0, 0, 0]]))
    with pytest.raises(ModelError, match="a FactorGraph or the path"):
        ef.fit(3, np.array([[0, 0, 0]]))  # type: ignore[arg-type]


def test_ties_need_children_at_one_place() -> None:
    graph = FactorGraph([2] * 3, [([0], [1, 1]), ([0, 1], [1] * 4), ([2, 1], [1] * 4)])
    with pytest.raises(OptionError, match="at place 0 in factor 2"):
        ef.fit(graph, np.zeros((3, 3), int), tied=[[1, 2]])


def test_validation_is_held_out() -> None:
    rows = draw(lawn(), 1000)
    fitted = ef.fit(lawn(), rows, validation=0.2, seed=1)
    assert fitted.num_rows == 800
    assert fitted.validation_log_likelihood == pytest.approx(fitted.log_likelihood, abs=0.2)
    own = ef.fit(lawn(), rows, validation=rows[:10])
    assert own.validation_log_likelihood == pytest.approx(own.score(rows[:10]))
    assert own.num_rows == 1000


def test_the_summary_tells_what_happened() -> None:
    fitted = ef.fit(lawn(), draw(lawn(), 10))
    assert str(fitted).startswith("method counts, status exact, rows 10, log-likelihood per row -")
    assert "log-likelihood per row" in fitted._repr_html_()
    assert fitted.__rich__() is not None


def test_settings_are_keywords_or_text() -> None:
    graph = FactorGraph([2, 2], [([0], [1, 1]), ([0, 1], [1] * 4)])
    rows = [[0, 0], [1, 1], [1, 0]]
    by_text, by_keyword = ef.fit(graph, rows, "counts(prior=3)"), ef.fit(graph, rows, "counts", prior=3)
    assert by_text.method == by_keyword.method == ef.fit(graph, rows, "auto(prior=3)").method == "counts(prior=3)"
    np.testing.assert_array_equal(by_text.graph.log_phi, by_keyword.graph.log_phi)
    with pytest.raises(OptionError, match="counts has no option 'priors'; did you mean prior"):
        ef.fit(graph, rows, "counts(priors=3)")
    with pytest.raises(OptionError, match="no method of fitting 'count'; did you mean counts"):
        ef.fit(graph, rows, "count")
