"""The house stays as it was drawn: a room looks only downwards, and the pure parts do not know each other."""

import ast
from pathlib import Path

import samc

ROOT = Path(samc.__file__).parent
FLOORS = (
    ("cli",),
    ("report",),
    ("experiments",),
    ("protocol",),
    ("record",),
    ("learners",),
    ("saliency", "memory", "completion", "projection", "gradients", "models", "streams", "metrics", "similarity",
     "device", "clock"),
    ("config",),
    ("errors", "version", "files"),
)  # fmt: skip
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("samc.")}
    return found


def sources():
    return [path for path in sorted(ROOT.rglob("*.py")) if room_of(path) not in ("__init__", "__main__")]


def test_every_module_has_a_room():
    assert {room_of(path) for path in sources()} == set(FLOOR)


def test_rooms_look_only_downwards():
    wrong = [
        f"{path.relative_to(ROOT)} imports {other}"
        for path in sources()
        for other in imported_rooms(path)
        if other != room_of(path) and FLOOR[other] <= FLOOR[room_of(path)]
    ]
    assert wrong == []


def test_modules_open_with_a_sentence_and_stay_short():
    for path in sources():
        text = path.read_text()
        assert ast.get_docstring(ast.parse(text)), f"{path} does not say what it is"
        assert len(text.splitlines()) <= 250, f"{path} is probably two ideas"


def test_nothing_below_the_rim_prints():
    calls = [
        path.relative_to(ROOT)
        for path in sources()
        if room_of(path) not in ("cli",)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert calls == []


def test_a_method_is_one_short_file_and_shares_no_six_lines_with_another():
    runs: dict[tuple[str, ...], str] = {}
    for path in sorted((ROOT / "learners").glob("*.py")):
        text = path.read_text()
        assert len(text.splitlines()) <= (200 if path.stem in ("base", "rehearsal") else 150), path
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("import", "from"))]
        for start in range(len(lines) - 5):
            six = tuple(lines[start : start + 6])
            assert runs.setdefault(six, path.stem) == path.stem, f"{path.stem} and {runs[six]} share {six}"
