"""What all pictures share: matplotlib, which only they need, colours, and names that matplotlib must not read."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from equifactor.base.errors import OptionError
from equifactor.drawing.html_tables import LONGEST, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, FAINT = "#1a202c", "#cbd5e0"
CURVES = ("#2b6cb0", "#c8553d", "#2f855a", "#d69e2e", "#6b46c1", "#3d4852")
SPINS = ("#2b6cb0", "#f7f7f5", "#c8553d")  # colours of state 0, of an undecided variable, of state 1
_MISSING = 'pictures need matplotlib: pip install "equifactor[plot]"'


def free_figure() -> tuple[Any, Any]:
    """A class of figures without a window, and the colours of matplotlib."""
    try:
        from matplotlib import colors
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise OptionError(_MISSING) from None

    class WindowlessFigure(Figure):
        """A figure that is drawn to memory, without window or display, and that a notebook shows by itself."""

        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            FigureCanvasAgg(self)

        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    return WindowlessFigure, colors


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or those of a new figure of so many inches, which a notebook shows by itself."""
    if ax is not None:
        if not hasattr(ax, "set_title"):
            raise OptionError(f"ax must be matplotlib Axes, found {type(ax).__name__}")
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise OptionError(_MISSING) from None
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def plain(name: object, most: int = LONGEST) -> str:
    """A name as matplotlib may draw it: short, and with dollars that begin no formula."""
    return short(name, most).replace("$", r"\$")


def tidy(ax: Axes, title: str) -> Axes:
    """The axes without a frame at the top and the right, under a title that is read as plain text."""
    ax.set_title(plain(title, 90), fontsize=11 if len(title) < 60 else 9, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    return ax
