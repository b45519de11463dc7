"""Draw docs/figures/decoding.svg: logical error rates of rotated surface codes, which cross at the threshold.

python docs/figures/decoding.py    a minute on one core; writes decoding.svg beside this file
"""

from pathlib import Path

from matplotlib import rcParams

import equifactor as ef

SHOTS = 20_000
curves: dict[str, list[tuple[float, int, int]]] = {}
for distance in (3, 5, 9, 13):
    name = f"distance {distance}"
    curves[name] = []
    for p in (0.06, 0.07, 0.08, 0.09, 0.1, 0.11, 0.12, 0.13, 0.14):
        decoder = ef.decoding.Decoder(ef.decoding.surface_code(distance, p), method="relay")
        found = decoder.logical_error_rate(SHOTS, seed=1)
        curves[name].append((p, found.shots, found.errors))
        print(name, p, found, flush=True)
rcParams["svg.hashsalt"] = "equifactor"  # the same file every time
ax = ef.plot.plot_error_rates(curves, x="error rate of a qubit")
ax.figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
