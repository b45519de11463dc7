"""Networks that are hard to draw in layers: wide fans, long lines and long names."""

from __future__ import annotations

import numpy as np

from equifactor import FactorGraph


def network(parents: dict[str, str]) -> FactorGraph:
    """Return a network of binary variables, from the names of each variable's parents."""
    tables = [([*of.split(), name], np.full([2] * (1 + len(of.split())), 0.5)) for name, of in parents.items()]
    return FactorGraph(dict.fromkeys(parents, 2), tables)


def fan_network() -> FactorGraph:
    """Return a small weather network: one variable has 17 children with long names, and lines skip many rows."""
    parents = {"Season": "", "Scenario": "Season"}
    parents |= {f"RelativeForecast{k:02}": "Scenario" for k in range(17)}
    parents |= {"VerticalMotion": "", "SatelliteMoist": "", "CombinedMoisture": "VerticalMotion SatelliteMoist"}
    parents |= {"CloudShading": "CombinedMoisture VerticalMotion", "Boundaries": "CloudShading Scenario"}
    parents |= {"PlainsForecast": "Boundaries RelativeForecast03 VerticalMotion Season"}
    parents |= {"RegionForecast": "PlainsForecast RelativeForecast16 SatelliteMoist"}
    return network(parents)


def random_network(count: int, seed: int) -> FactorGraph:
    rng = np.random.default_rng(seed)
    names = [f"variable{'x' * int(rng.integers(10))}{i}" for i in range(count)]
    chosen = [rng.choice(i, min(i, int(rng.integers(4))), replace=False) for i in range(count)]
    return network({name: " ".join(names[j] for j in of) for name, of in zip(names, chosen, strict=True)})
