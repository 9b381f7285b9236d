"""A built wheel is all that is needed: installed into an empty environment, it runs outside of the clone."""

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from functools import cache
from pathlib import Path

import pytest

import samc
from samc.version import VERSION

ROOT = Path(samc.__file__).parents[2]
RUN = ("run", "--model", "er", "--n-tasks", "1", "--samples-per-task", "10", "--out", "first")


def called(command, folder, **more):
    """The output of a command that knows nothing of the clone: neither its path nor the tests' settings."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP", "SAMC"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=bare, capture_output=True, text=True, check=False, **more
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@cache
def interpreters():
    """Every Python from 3.11 that is here, and works."""
    found = {}
    known = [sys.executable, *(shutil.which(f"python3.{minor}") for minor in (11, 12))]
    known += sorted(Path("~/.pyenv/versions").expanduser().glob("3.1[12].*/bin/python"))
    for path in filter(None, known):
        asked = [str(path), "-c", "import sys, venv, ensurepip; print(*sys.version_info[:3])"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=False)
        version = tuple(map(int, answer.stdout.split()))
        if answer.returncode == 0 and version >= (3, 11, 4):
            found.setdefault(version[:2], Path(path))
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from the files that git knows, in a folder of its own: what lies about in the clone is not in it."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        source.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    # by what is installed already: a build of its own environment would have to be fetched
    build = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"
    called([sys.executable, "-c", build, folder], source)
    (made,) = folder.glob("*.whl")
    assert made.name == f"samc-{VERSION}-py3-none-any.whl"
    return made


def environment(python, folder, *, linked):
    """An empty one; `linked` to the packages of this process, of which a wheel's dependencies are some."""
    called([python, "-m", "venv", folder], folder.parent)
    binaries = folder / "bin"
    if linked:
        (site,) = folder.glob("lib/python3.*/site-packages")
        # behind the environment's own packages, and without what an editable install of the clone adds to the path
        (site / "linked.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return binaries


@pytest.mark.slow
def test_a_wheel_runs_where_there_is_no_clone(wheel, tmp_path):
    """With the dependencies of this process: to fetch torch again would take minutes."""
    binaries = environment(sys.executable, tmp_path / "venv", linked=True)
    called([binaries / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    where = called([binaries / "python", "-c", "import samc, sys; print(samc.__file__, samc.__version__)"], outside)
    assert where == f"{next((tmp_path / 'venv').glob('lib/*/site-packages'))}/samc/__init__.py {VERSION}\n"
    assert called([binaries / "samc", "--version"], outside) == f"{VERSION}\n"
    assert "samc run" in called([binaries / "samc", "--help"], outside)
    out = called([binaries / "samc", *RUN], outside)
    assert "record: first/record.json" in out
    assert {path.name for path in (outside / "first").iterdir()} == {
        "record.json",
        "memory.samc",
        "learner.safetensors",
        "recollection.npz",
        "progress.jsonl",
        "report.html",
    }
    # the files of the package besides its modules: presets, the paper's figures, the autoencoder's weights
    paper = ("run", "--preset", "paper", "--backbone", "mlp", "--n-tasks", "1", "--samples-per-task", "4")
    assert "record:" in called([binaries / "samc", *paper, "--out", "paper"], outside)
    continued = ("continue", "first", "--dataset", "split-synthetic", "--n-tasks", "1", "--samples-per-task", "4")
    assert "learnt as task 1" in called([binaries / "samc", *continued, "--out", "second"], outside)
    assert "er" in called([binaries / "samc", "report", "."], outside)


@pytest.mark.slow
@pytest.mark.parametrize("minor", [11, 12])
def test_a_wheel_installs_on_every_python_that_it_is_for(minor, wheel, tmp_path):
    """Its modules compile there, and what needs no dependency answers; samc itself is asked for its version."""
    if (3, minor) not in interpreters():
        pytest.skip(f"there is no Python 3.{minor} here")
    binaries = environment(interpreters()[3, minor], tmp_path / "venv", linked=False)
    called([binaries / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], tmp_path)
    called([binaries / "python", "-W", "error", "-m", "compileall", "-q", "-f", tmp_path / "venv" / "lib"], tmp_path)
    version = "import samc; print(samc.__version__)"
    assert called([binaries / "python", "-c", version], tmp_path) == f"{VERSION}\n"


def test_the_wheel_asks_for_what_the_package_imports():
    """Nothing is imported that neither the wheel's dependencies nor its extras bring."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *(part for extra in project["optional-dependencies"].values() for part in extra)]
    brought = {part.split(">")[0].split(";")[0].split("[")[0].strip().lower().replace("-", "_") for part in named}
    modules = {"opencv_python_headless": "cv2", "pillow": "pil", "pyyaml": "yaml", "avalanche_lib": "avalanche"}
    brought = {modules.get(name, name) for name in brought} | {"samc"}
    brought |= {"click", "markupsafe"}  # parts of the interfaces of typer and of jinja2, which bring them
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.split(".")[0])
    assert {name.lower() for name in imported - sys.stdlib_module_names} <= brought
