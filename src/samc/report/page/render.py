"""Panels to one HTML text: the template, its style and script inside it, and a policy that lets in nothing else."""

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from samc.report.page.panels import HEAT_LEVELS, heat, whole
from samc.report.page.svg import COLOURS
from samc.report.tables import Column
from samc.version import VERSION


def spans(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Neighbouring columns of one group, and how many they are."""
    return [(group, len(list(members))) for group, members in groupby(columns, key=lambda column: column.group)]


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("samc.report.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"spans": spans, "heat": heat, "whole": whole}
    return made


@cache
def assets() -> tuple[Markup, Markup]:
    """The style sheet and the script, as they stand in the page."""
    folder = files("samc.report.page")
    style, script = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return Markup(style + heat_rules()), Markup(script)


def heat_rules() -> str:
    """A class for every shade of the accuracy matrix, with an ink that can be read on it, light or dark."""
    rules = []
    for level in range(HEAT_LEVELS + 1):
        share = level / HEAT_LEVELS
        shade = f"color-mix(in oklab, var(--heat-high) {share:.0%}, var(--heat-low))"
        ink = "low" if share < 0.6 else "middle" if share < 0.75 else "high"
        rules.append(f".h{level} {{ --shade: {shade}; background: var(--shade); color: var(--{ink}-ink); }}\n")
    return "".join(rules)


def digest(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def policy(served: bool) -> str:
    """Our own style and script, pictures that are inside the page, and where it is served the server's own answers."""
    style, script = assets()
    rules = {
        "default-src": "'none'",
        "style-src": digest(style),
        "script-src": digest(script),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    } | ({"connect-src": "'self'"} if served else {})
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def as_json(data: Any) -> Markup:
    """JSON inside a script element: no character of it can end that element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def render(context: dict[str, Any], data: Any, *, live: str | None = None) -> str:
    """`live` is what tells the state of a run that is served from a later one; None for a page on disk."""
    style, script = assets()
    return (
        environment()
        .get_template("page.html")
        .render(
            **context,
            data=as_json(data),
            style=style,
            script=script,
            policy=policy(live is not None),
            live=live,
            version=VERSION,
            colours=COLOURS,
        )
    )
