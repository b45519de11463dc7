"""Why is the lawn wet? A Bayesian network in the .bif format, queried by names.

`python examples/lawn.py` writes the network to a file and reads it. `equifactor solve lawn.bif` reads the same format.
"""

import tempfile
from pathlib import Path

import equifactor as ef

NETWORK = """\
network lawn {
}
variable season {
  type discrete [ 4 ] { spring, summer, autumn, winter };
}
variable rain {
  type discrete [ 2 ] { no, yes };
}
variable sprinkler {
  type discrete [ 2 ] { off, on };
}
variable lawn {
  type discrete [ 3 ] { dry, damp, "very wet" };
}
probability ( season ) {
  table 0.25, 0.25, 0.25, 0.25;
}
probability ( rain | season ) {
  default 0.6, 0.4;
  (summer) 0.8, 0.2;
}
probability ( sprinkler | season, rain ) {
  default 1, 0;                      // nobody waters in the rain, or out of season
  (spring, no) 0.8, 0.2;
  (summer, no) 0.3, 0.7;
}
probability ( lawn | rain, sprinkler ) {
  (no, off) 0.9, 0.1, 0;
  (no, on) 0.05, 0.35, 0.6;
  (yes, off) 0.1, 0.4, 0.5;
  (yes, on) 0, 0.2, 0.8;
}
"""

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lawn.bif")
        path.write_text(NETWORK, encoding="utf-8")
        network = ef.read_graph(path)
    result = ef.solve(network, evidence={"lawn": "very wet", "rain": "no"})
    for name in ("season", "sprinkler"):
        print(name, result.marginals[name].round(3))
    print(result.joint("season", "sprinkler"))
