"""Draw docs/figures/decoding.svg: logical error rates of three bicycle codes with noise on data only.

python docs/figures/decoding.py    a minute on one core; writes decoding.svg beside this file
"""

from pathlib import Path

import equifactor as ef

POINTS = ((0.04, 20_000), (0.05, 10_000), (0.06, 5_000), (0.07, 3_000), (0.08, 2_000), (0.1, 1_000))

curves: dict[str, list[tuple[float, int, int]]] = {}
for name in ("bb72", "bb108", "bb144"):
    curves[name] = []
    for p, shots in POINTS:
        decoder = ef.decoding.Decoder(ef.decoding.bicycle_code(name, p), method="relay(schedule=serial)")
        found = decoder.logical_error_rate(shots, seed=1)
        curves[name].append((p, found.shots, found.errors))
        print(name, p, found)
ax = ef.plot.plot_error_rates(curves, x="error rate of a qubit")
ax.figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
