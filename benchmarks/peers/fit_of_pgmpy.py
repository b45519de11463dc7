"""pgmpy: the tables of a Bayesian network from complete data, by its two estimators.

The script is run as `python fit_of_pgmpy.py REQUEST`. REQUEST is a JSON object with the paths of the `model` (.bif) and
of the `data` (.csv), and the number of `repeats`. The script prints one JSON line with the seconds of the best run of
each estimator. The time does not include building the frame, which has categories, the faster form for pgmpy.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
from common import best
from pgmpy.estimators import BayesianEstimator, MaximumLikelihoodEstimator
from pgmpy.models import DiscreteBayesianNetwork
from pgmpy.readwrite import BIFReader

warnings.simplefilter("ignore")


def main() -> None:
    request = json.loads(sys.argv[1])
    known = BIFReader(string=Path(request["model"]).read_text()).get_model()
    network = DiscreteBayesianNetwork()
    network.add_nodes_from(known.nodes())
    network.add_edges_from(known.edges())
    states = {cpd.variable: cpd.state_names[cpd.variable] for cpd in known.cpds}
    frame = pd.read_csv(request["data"], dtype=str, keep_default_na=False).astype("category")

    def likelihood() -> Any:
        return MaximumLikelihoodEstimator(network, frame, state_names=states).get_parameters(n_jobs=1)

    def bayes() -> Any:
        estimator = BayesianEstimator(network, frame, state_names=states)
        return estimator.get_parameters(prior_type="BDeu", equivalent_sample_size=1, n_jobs=1)

    print(json.dumps({"mle": best(likelihood, request["repeats"]), "bdeu": best(bayes, request["repeats"])}))


if __name__ == "__main__":
    main()
