"""The layers of the package: a room imports only from floors below its own, and neighbours do not know each other."""

import ast
import textwrap
from importlib.util import resolve_name
from pathlib import Path

import pytest

import samc

ROOT = Path(samc.__file__).parent
PACKAGE = "samc"
FLOORS = (
    ("cli",),
    ("report",),
    ("experiments",),
    ("loggers",),
    ("protocol",),
    ("resuming",),
    ("record", "checkpoints", "health", "avalanche"),
    ("learners",),
    ("memory", "completion", "projection"),
    ("saliency", "engine"),
    ("models",),
    ("streams", "metrics", "similarity", "machine"),
    ("device", "clock", "presets", "values"),
    ("config", "state"),
    ("tensor_files",),
    ("files", "extras"),
    ("errors", "version", "interrupt", "stopping"),
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
TOP = -1
# the floor of the package itself, which imports from everywhere and which nothing within imports


def room_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def sources():
    return [path for path in sorted(ROOT.rglob("*.py")) if room_of(path) not in ("__init__", "__main__")]


def imported_names(tree, package):
    """Every module of ours that a source names in an import, wherever the import stands.

    An attribute that is imported from a module is named as if it were a module within it. `package` is the package
    that relative imports start from.
    """
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module
            names = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if function in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                text = node.args[0].value
                names = [resolve_name(text, package) if text.startswith(".") else text]
        yield from (name for name in names if name.split(".")[0] == PACKAGE)


def imported_rooms(text, package):
    """The rooms that a source imports from; the package's own name where it imports what is no room."""
    rooms = set()
    for name in imported_names(ast.parse(text), package):
        _, room, *_ = (*name.split("."), "")
        rooms.add(room if room in FLOOR else PACKAGE)
    return rooms


def package_of(path):
    return ".".join((PACKAGE, *path.relative_to(ROOT).parent.parts))


def test_every_module_has_a_room():
    assert {room_of(path) for path in sources()} == set(FLOOR)


def test_rooms_import_only_from_floors_below():
    wrong = [
        f"{path.relative_to(ROOT)} imports {other}"
        for path in sources()
        for other in imported_rooms(path.read_text(), package_of(path))
        if other != room_of(path) and FLOOR.get(other, TOP) <= FLOOR[room_of(path)]
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "rooms"),
    [
        ("import samc", {"samc"}),
        ("import samc as itself", {"samc"}),
        ("from samc import SAMC", {"samc"}),
        ("from samc import *", {"samc"}),
        ("from samc import metrics, errors", {"metrics", "errors"}),
        ("import samc.learners.base, os", {"learners"}),
        ("from samc.learners import base", {"learners"}),
        ("from . import tables", {"report"}),
        ("from .tables import Table", {"report"}),
        ("from .. import cli", {"cli"}),
        ("from ..cli import run", {"cli"}),
        ("from ..cli.run import command as run", {"cli"}),
        ("def f():\n    if True:\n        from samc.cli import run", {"cli"}),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from samc.protocol import run", {"protocol"}),
        ("try:\n    import samc.cli\nexcept ImportError:\n    pass", {"cli"}),
        ("import importlib\nimportlib.import_module('samc.cli.run')", {"cli"}),
        ("from importlib import import_module as m, import_module\nimport_module('..cli', __package__)", {"cli"}),
        ("__import__('samc')", {"samc"}),
        ("import os, torch\nfrom pathlib import Path\nprint('samc.cli')", set()),
        ("import samcx\nfrom samcx.cli import run", set()),
    ],
)
def test_no_import_is_overlooked(text, rooms):
    assert imported_rooms(textwrap.dedent(text), "samc.report") == rooms


def test_modules_open_with_a_sentence():
    for path in sources():
        opening = ast.get_docstring(ast.parse(path.read_text()))
        assert opening, f"{path} does not say what it is"
        assert opening.partition("\n")[0].endswith("."), f"{path} does not open with a sentence"


def test_nothing_below_the_command_line_prints():
    calls = [
        path.relative_to(ROOT)
        for path in sources()
        if room_of(path) != "cli"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert calls == []


def test_the_command_line_has_one_way_to_the_terminal():
    """`say` and a `Terminal` escape what they are given; nothing else writes there."""
    doors = {"terminal.py": {"print"}, "drawing.py": {"print"}, "progress.py": {"print"}}
    for path in sorted((ROOT / "cli").glob("*.py")):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        called = {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}
        assert called & {"print", "echo", "secho", "Console"} == doors.get(path.name, set()), path


def test_methods_share_no_six_lines():
    owners: dict[tuple[str, ...], str] = {}
    for path in sorted((ROOT / "learners").glob("*.py")):
        text = path.read_text()
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("import", "from"))]
        for start in range(len(lines) - 5):
            six = tuple(lines[start : start + 6])
            assert owners.setdefault(six, path.stem) == path.stem, f"{path.stem} and {owners[six]} share {six}"
