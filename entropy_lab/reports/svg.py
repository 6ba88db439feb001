"""A matplotlib figure as SVG text: the same bytes for the same numbers, letters as text, colours that follow the page.

What is drawn in `INK` takes the colour of the surrounding text. Inlined in the page, series colours are custom
properties too (`--series-1`, …) and ids carry the figure's name, so that several figures share one document.
"""

import io
import re
from collections.abc import Sequence
from xml.etree import ElementTree

from matplotlib.figure import Figure

INK = "#26292e"
FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
MONOSPACE = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_NAMESPACE = re.compile(r"\{(.*?)\}(.*)")
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_THEME = f"svg{{color-scheme:light dark;color:{INK}}}@media (prefers-color-scheme:dark){{svg{{color:#e7e9ec}}}}"
_FONT = re.compile(r"font-family: [^;]*")
_REFERENCE = re.compile(r"url\(#")


def _plain(name: str) -> str:
    match = _NAMESPACE.fullmatch(name)
    if match is None:
        return name
    return f"xlink:{match.group(2)}" if match.group(1) == _XLINK else match.group(2)


def _style(value: str, series: Sequence[str]) -> str:
    fonts = MONOSPACE if "Mono" in value else FONTS
    value = _FONT.sub(f"font-family: {fonts}", value).replace(INK, "currentColor")
    for index, colour in enumerate(series, 1):
        value = value.replace(colour, f"var(--series-{index}, {colour})")
    return value


def _tree(figure: Figure, name: str, series: Sequence[str]) -> ElementTree.Element:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata=_NO_METADATA, transparent=True)
    root = ElementTree.fromstring(buffer.getvalue())
    for definitions in root.findall(f"{{{_SVG}}}defs"):
        for sheet in definitions.findall(f"{{{_SVG}}}style"):
            definitions.remove(sheet)
    root.set("style", "stroke-linejoin: round; stroke-linecap: butt")
    for element in root.iter():
        element.tag = _plain(element.tag)
        attributes = {_plain(key): value for key, value in element.attrib.items()}
        element.attrib.clear()
        for key, value in attributes.items():
            if key == "id":
                value = f"{name}-{value}"
            elif key == "xlink:href":
                value = f"#{name}-{value[1:]}"
            elif key == "style":
                value = _style(value, series)
            element.set(key, _REFERENCE.sub(f"url(#{name}-", value))
    return root


def standalone(figure: Figure, name: str) -> str:
    """A file of its own: dark letters, light ones where the viewer prefers a dark scheme, no background."""
    root = _tree(figure, name, ())
    root.set("xmlns", _SVG)
    root.set("xmlns:xlink", _XLINK)
    style = ElementTree.Element("style")
    style.text = _THEME
    root.insert(0, style)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def inline(figure: Figure, name: str, title: str, series: Sequence[str]) -> str:
    """A piece of an HTML page, titled for those who cannot see it; `series` are the colours the page may replace."""
    root = _tree(figure, name, series)
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    for element in root.iter("use"):
        element.set("href", element.attrib.pop("xlink:href"))
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title")
    heading = ElementTree.Element("title", {"id": f"{name}-title"})
    heading.text = title
    root.insert(0, heading)
    return ElementTree.tostring(root, encoding="unicode")
