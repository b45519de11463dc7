"""Draw docs/figures/anytime.svg: the UAI score of marginals by `auto` against the time it is given.

`python docs/figures/anytime.py` draws the scores of anytime.json. With folders of `equifactor evaluate`, one per time
limit, it first reads the scores from them: `python docs/figures/anytime.py results/1s results/5s ..`
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

from matplotlib import rcParams
from matplotlib.figure import Figure

from equifactor.show.palette import styles_of

HERE = Path(__file__).parent
Scores = dict[str, dict[str, float]]  # by family, then by time limit


def scores_of(folders: list[str]) -> Scores:
    """Return the mean score of each family at each time limit, from the `results.json` of each folder."""
    found: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for folder in folders:
        for row in json.loads(Path(folder, "results.json").read_text(encoding="utf-8"))["rows"]:
            found[row["family"]][f"{row['time_limit']:g}"].append(row["score"] or 0.0)
    return {
        family: {limit: round(sum(s) / len(s), 2) for limit, s in sorted(by_limit.items(), key=lambda kv: float(kv[0]))}
        for family, by_limit in sorted(found.items())
    }


def draw(scores: Scores) -> Figure:
    """Draw a line per family that is below the full score at some limit."""
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    shown = [family for family, by_limit in scores.items() if min(by_limit.values()) < 99.95]
    for family, (colour, marker, dashes) in styles_of(shown).items():
        limits, values = map(float, scores[family]), list(scores[family].values())
        axes.plot(list(limits), values, color=colour, marker=marker, ls=dashes, label=family)
    ticks = sorted({float(limit) for by_limit in scores.values() for limit in by_limit})
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{limit:g}" for limit in ticks])
    axes.minorticks_off()
    axes.set_xlabel("time limit in seconds")
    axes.set_ylabel("score of marginals")
    axes.set_ylim(None, 100.5)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


if __name__ == "__main__":
    data = HERE / "anytime.json"
    if sys.argv[1:]:
        data.write_text(json.dumps(scores_of(sys.argv[1:]), indent=1) + "\n", encoding="utf-8")
    rcParams["svg.hashsalt"] = "equifactor"  # the same file every time
    draw(json.loads(data.read_text(encoding="utf-8"))).savefig(HERE / "anytime.svg", metadata={"Date": None})
