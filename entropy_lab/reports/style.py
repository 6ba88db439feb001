"""How every figure looks, and how it becomes SVG and PNG: no pyplot, no window, nothing global left changed.

Colours are Okabe and Ito's, the yellow darkened and the black lightened to be seen on both grounds; series also differ
in dashes and markers, and model text is drawn letter by letter, never as a formula.
"""

import io
import math
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font
from matplotlib.lines import Line2D

from entropy_lab.files import write_bytes
from entropy_lab.reports import svg
from entropy_lab.reports.visible import label, short_name

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6f7680", "#a89c00")
WIDTH = 4.6
SANS, MONO = "DejaVu Sans", "DejaVu Sans Mono"
_DASHES: tuple[tuple[float, Sequence[float]] | None, ...] = (
    None,
    (0, (5, 1.8)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_LEGEND_ROW = 13  # points
_STYLE: dict[Any, Any] = {
    "axes.edgecolor": svg.INK,
    "axes.labelcolor": svg.INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "axes.titlecolor": svg.INK,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "figure.constrained_layout.use": True,
    "font.family": SANS,
    "font.size": 9,
    "grid.alpha": 0.16,
    "grid.color": svg.INK,
    "grid.linewidth": 0.6,
    "legend.borderaxespad": 0.4,
    "legend.borderpad": 0,
    "legend.columnspacing": 1.6,
    "legend.fontsize": 9,
    "legend.handlelength": 1.9,
    "legend.frameon": False,
    "legend.labelcolor": svg.INK,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "entropy-lab",
    "text.color": svg.INK,
    "text.parse_math": False,
    "xtick.color": svg.INK,
    "xtick.labelsize": 8.5,
    "xtick.major.size": 3,
    "xtick.major.width": 0.6,
    "ytick.color": svg.INK,
    "ytick.labelsize": 8.5,
    "ytick.left": False,
}


@dataclass(frozen=True)
class Drawing:
    """A figure, what it shows in a few words, and how to read it; `name` is its file's, of letters, digits and `_`."""

    name: str
    figure: Figure
    title: str
    caption: str

    def __post_init__(self) -> None:
        """Fix the layout: laid out again for each file, the plot would move a little every time."""
        with house_style():
            self.figure.draw_without_rendering()
            self.figure.set_layout_engine("none")


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib's defaults and ours, whatever the user has set; make and save figures within."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def glyphs(family: str) -> Container[int]:
    """The code points a font can draw."""
    return FT2Font(findfont(FontProperties(family=[family]))).get_charmap()


def drawn_text(text: str, limit: int) -> str:
    """Any text on one line of at most `limit` characters, what the font cannot draw named."""
    return label(text, limit, drawable=glyphs(SANS))


def drawn_name(name: str, limit: int) -> str:
    """A checkpoint's name, its middle cut where it is long."""
    return short_name(name, limit, drawable=glyphs(SANS))


def new_axes(ylabel: str, xlabel: str, height: float = 3.0) -> tuple[Figure, Axes]:
    """A figure of one plot, its y label where a title stands."""
    figure = Figure((WIDTH, height))
    axes = figure.add_subplot()
    axes.set_xlabel(drawn_text(xlabel, 80))
    axes.set_title(drawn_text(ylabel, 80))
    axes.set_axisbelow(True)
    axes.grid(axis="y")
    return figure, axes


def legend(axes: Axes, names: Sequence[str], looks: Sequence[Artist | None]) -> None:
    """Names above the plot and under its title, where there are two or more; many make the figure taller.

    `looks` holds a handle for each name, None for one that has nothing in this figure.
    """
    if len(names) < 2:
        return
    handles = [look for look in looks if look is not None]
    shown = [drawn_name(name, 36) for name, look in zip(names, looks, strict=True) if look is not None]
    columns = 2 if max(map(len, shown)) <= 22 else 1
    placeholders = [str(index) for index in range(len(handles))]
    drawn = axes.legend(handles, placeholders, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns)
    drawn.set_in_layout(False)  # its width must not squeeze the plot; the title makes room for its height
    for text, name in zip(drawn.get_texts(), shown, strict=True):
        text.set_text(name)  # a label that begins with "_" would be dropped
    rows = math.ceil(len(handles) / columns)
    axes.set_title(axes.get_title(loc="left"), pad=10 + _LEGEND_ROW * rows)
    figure = axes.get_figure(root=True)
    if figure is not None and rows > 2:
        figure.set_size_inches(WIDTH, figure.get_size_inches()[1] + (rows - 2) * _LEGEND_ROW / 72)


def colour(index: int) -> str:
    """The colour of series `index`; after eight they come round again, with other dashes."""
    return SERIES[index % len(SERIES)]


def dashes(index: int) -> Any:
    """The dashes of series `index`; with its colour they tell 32 series apart."""
    return _DASHES[(index + index // len(SERIES)) % len(_DASHES)]


def line(index: int, *, marker: bool = False) -> Line2D:
    """An empty line that looks like series `index`."""
    sign = _MARKERS[index % len(_MARKERS)] if marker else ""
    return Line2D([], [], color=colour(index), linestyle=dashes(index), marker=sign)


def inline_svg(drawing: Drawing) -> str:
    """The figure as a piece of an HTML page; its colours follow the page's."""
    with house_style():
        return svg.inline(drawing.figure, drawing.name, f"{drawing.title}. {drawing.caption}", SERIES)


def write_drawing(drawing: Drawing, folder: Path) -> dict[str, Path]:
    """Write `NAME.svg` (no background) and `NAME.png` (white), and tell where they are, by file name."""
    with house_style():
        image = io.BytesIO()
        drawing.figure.savefig(image, format="png", facecolor="white", metadata={"Software": None})
        vector = svg.standalone(drawing.figure, drawing.name)
    paths = {}
    for suffix, content in (("svg", vector.encode()), ("png", image.getvalue())):
        path = folder / f"{drawing.name}.{suffix}"
        write_bytes(path, content)
        paths[path.name] = path
    return paths
