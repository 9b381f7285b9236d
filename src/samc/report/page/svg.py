"""A matplotlib figure as SVG for a page: colours by the page's variables, no inline styles, values to point at."""

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from xml.etree import ElementTree

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure

SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"
INK, MUTED, GRID, GROUND = "#010101", "#020202", "#030303", "#040404"
COLOURS = 10
# of methods, --c0 to --c9 in the page's style sheet, and as many of parts and phases, --p0 to --p9
FAMILIES = {"c": "#0505", "p": "#0606"}
VARIABLES = {INK: "ink", MUTED: "muted", GRID: "grid", GROUND: "ground"} | {
    f"{stem}{number:02x}": f"{family}{number}" for family, stem in FAMILIES.items() for number in range(COLOURS)
}
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "samc",
    "text.parse_math": False,
    "font.size": 11,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "grid.color": GRID,
}
KEPT = ("text-anchor", "font-size", "font-weight", "font-style")
# of a text's style; its family is the page's
ROUNDED = re.compile(r"-?\d+\.\d{2,}")


def colour(number: int, family: str = "c") -> str:
    """What stands for one of the page's colours while a figure is drawn."""
    return f"{FAMILIES[family]}{number % COLOURS:02x}"


def to_svg(figure: Figure, name: str, label: str, values: Mapping[str, Sequence[str]]) -> Markup:
    """The figure; `values` are, by group of points (its gid), what each of them says when it is pointed at."""
    content = io.BytesIO()
    figure.savefig(content, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(content.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{SVG}metadata", f"{SVG}style"):
                parent.remove(child)
    for group, texts in values.items():
        annotate(root, group, texts)
    wanted = referenced_ids(root)
    for element in root.iter():
        clean(element, name, wanted)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.set("role", "img")
    root.set("aria-label", label)
    ElementTree.register_namespace("", SVG.strip("{}"))
    text = ElementTree.tostring(root, encoding="unicode")
    return Markup(text)


def annotate(root: ElementTree.Element, group: str, texts: Sequence[str]) -> None:
    """Give each point of a group its text, as the title of an element around it."""
    (found,) = (element for element in root.iter(f"{SVG}g") if element.get("id") == group)
    parents = [parent for parent in found.iter() if parent.find(f"{SVG}use") is not None]
    points = [(parent, use) for parent in parents for use in parent.findall(f"{SVG}use")]
    if not points:  # a bar is a path
        points = [(parent, path) for parent in found.iter() for path in parent.findall(f"{SVG}path")]
    for (parent, point), text in zip(points, texts, strict=True):
        around = ElementTree.Element(f"{SVG}g", {"class": "point"})
        title = ElementTree.SubElement(around, f"{SVG}title")
        title.text = text
        parent.insert(list(parent).index(point), around)
        parent.remove(point)
        around.append(point)


def referenced_ids(root: ElementTree.Element) -> set[str]:
    texts = [value for element in root.iter() for value in element.attrib.values()]
    return {match for text in texts for match in re.findall(r"#([\w.-]+)\)?$", text)}


def clean(element: ElementTree.Element, name: str, wanted: set[str]) -> None:
    """Styles become attributes, which a page's policy allows and its style sheet overrules; ids are the chart's own."""
    for rule in element.attrib.pop("style", "").split(";"):
        key, _, value = (part.strip() for part in rule.partition(":"))
        if key == "font":  # older versions of matplotlib write all in one
            key, value = "font-size", next((part for part in value.split() if part.endswith("px")), "11px")
        if key and (element.tag != f"{SVG}text" or key in KEPT or key in ("fill", "stroke")):
            element.set(key, value)
    if element.get("id") is not None:
        if element.get("id") in wanted:
            element.set("id", f"{name}-{element.get('id')}")
        else:
            del element.attrib["id"]
    if HREF in element.attrib:
        element.set("href", f"#{name}-{element.attrib.pop(HREF).removeprefix('#')}")
    for key, value in list(element.attrib.items()):
        if value in VARIABLES:
            element.set(key, f"var(--{VARIABLES[value]})")
        elif value.startswith("url(#"):
            element.set(key, f"url(#{name}-{value.removeprefix('url(#')}")
        elif key in ("d", "x", "y", "transform"):
            element.set(key, ROUNDED.sub(lambda match: f"{float(match[0]):.1f}", " ".join(value.split())))
    if element.text is not None and not element.text.strip():
        element.text = None
    element.tail = None if element.tail is None or not element.tail.strip() else element.tail


def styled() -> AbstractContextManager[None]:
    """The settings that figures of the page are drawn under."""
    return mpl.rc_context(STYLE)  # type: ignore[arg-type]
