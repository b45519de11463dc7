"""What all pictures share: axes of matplotlib, colours, and names that matplotlib must not read as formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equifactor.base.errors import OptionError
from equifactor.base.optional_packages import needed
from equifactor.show.html_tables import LONGEST, short
from equifactor.show.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, FAINT, LINE = "#1a202c", "#cbd5e0", "#718096"
CURVES = LIGHT
_MOST_INSIDE = 6  # entries of a legend that is drawn inside the axes; a longer one is drawn beside them. By hand.
SPINS = ("#2b6cb0", "#f7f7f5", "#c8553d")  # colours of probability 0, 1/2 and 1 of state 1


def matplotlib(module: str) -> Any:
    """Import a module of matplotlib; raises `MissingPackageError` if matplotlib is not installed."""
    needed("matplotlib", "drawing a picture")
    return needed(f"matplotlib.{module}", "drawing a picture")


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the given axes, or the axes of a new figure of `width` x `height` inches, which a notebook displays."""
    if ax is None:
        new: Axes = matplotlib("pyplot").subplots(figsize=(width, height), layout="constrained")[1]
        return new
    if not hasattr(ax, "set_title"):
        raise OptionError(f"`ax` must be an Axes object of matplotlib, found {type(ax).__name__}.")
    return ax


def spin_colours() -> Any:
    """Return the colour map from probability 0 to probability 1."""
    return matplotlib("colors").LinearSegmentedColormap.from_list("spins", SPINS)


def on_spins(p: float) -> str:
    """Return the colour of text on the colour of probability `p`: dark on the light middle of the map."""
    return INK if abs(p - 0.5) < 0.33 else "white"


def plain(name: object, most: int = LONGEST) -> str:
    """Return a name as matplotlib draws it: at most `most` characters, and no dollar sign starts a formula."""
    return short(name, most).replace("$", r"\$")


def tidy(ax: Axes, title: str) -> Axes:
    """Remove the frame at the top and the right, and set a title that is read as plain text."""
    ax.set_title(plain(title, 90), fontsize=11 if len(title) < 60 else 9, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def legend(ax: Axes, widen: bool = False) -> None:
    """Add the legend, beside the axes if it is long; `widen` makes the figure wider by the legend."""
    labels = ax.get_legend_handles_labels()[1]
    if not labels:
        return
    if len(labels) <= _MOST_INSIDE:
        ax.legend(frameon=False, fontsize=9, labelcolor=INK)
        return
    beside = ax.legend(frameon=False, fontsize=9, labelcolor=INK, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure = ax.get_figure(root=True)
    if widen and figure is not None:
        width, height = figure.get_size_inches()
        figure.set_size_inches(width + beside.get_window_extent().width / figure.dpi, height)
