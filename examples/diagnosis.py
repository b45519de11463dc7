"""Diagnosis with noisy-or: find the diseases that explain the observed findings.

    python examples/diagnosis.py

There are twelve diseases and twenty findings. Each finding is caused by some diseases with some probability, or occurs
by chance. Half of the findings are observed. The posterior of every disease is exact: a finding with 8 causes is one
structured factor instead of a dense table of 512 entries.
"""

from __future__ import annotations

import math

import equifactor as ef


def main() -> None:
    """Print the diseases in the order of their probability given the findings."""
    graph = ef.generators.noisy_or_network(12, 20, parents=(2, 8), observed=0.5, seed=3)
    present = [i for i, state in graph.evidence.items() if state == 1]
    print(graph)
    print(f"findings that are there: {present}; not there: {sorted(set(graph.evidence) - set(present))}")
    print(ef.plan(graph))
    marginals = ef.solve(graph, "MAR", "exact").marginals
    assert marginals is not None
    posterior = {i: float(marginals[i][1]) for i in range(12)}
    for i, after in sorted(posterior.items(), key=lambda pair: -pair[1])[:5]:
        before = math.exp(graph.log_table(i)[1])  # factor i is the prior of disease i
        print(f"disease {i:2}: {before:.3f} before, {after:.3f} after")


if __name__ == "__main__":
    main()
