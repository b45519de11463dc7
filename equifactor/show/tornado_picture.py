"""A tornado plot: one bar per cause, from the low to the high value of a result, the longest bar on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equifactor.show.canvas import CURVES, INK, axes_or_new, plain, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABEL = 48  # characters of a name beside a bar. Chosen by hand.


def draw_tornado(bars: Sequence[tuple[str, float, float]], middle: float, title: str, ax: Axes | None) -> Axes:
    """Draw bars (name, value when the cause is smaller, value when it is larger) around the present value."""
    ax = axes_or_new(ax, 7.0, 1.2 + 0.3 * len(bars))
    places = range(len(bars))
    for side, label in ((1, "entry smaller"), (2, "entry larger")):
        ax.barh(places, [bar[side] - middle for bar in bars], left=middle, color=CURVES[side - 1], label=label)  # type: ignore[operator]
    ax.axvline(middle, color=INK, linewidth=1)
    ax.set_yticks(places, [plain(bar[0], _LABEL) for bar in bars], fontsize=9)
    ax.set(xlabel="probability", ylim=(len(bars) - 0.5, -0.5))
    if bars:
        ax.legend(fontsize=9, frameon=False)
    tidy(ax, "").set_title(plain(title, 90), fontsize=11, loc="right")  # It stands above the names too.
    return ax
