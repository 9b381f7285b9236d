"""Every test runs with shapes and types of the package checked at each call, on one thread, offline."""

import os

# read when the libraries start, in workers and subprocesses too: two workers of two threads each wait for each other
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import signal
from pathlib import Path

import torch
from jaxtyping import install_import_hook

from logs import without_progress

# a shell's background jobs, and those under nohup, begin with signals ignored, and so does what they start
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # kernels run on the CPU, one program after the other; read at their import

ROOT = Path(__file__).parents[1] / "src"
KERNELS = ("convolution_kernels", "batch_norm", "qp")
# Triton reads the source of these as it stands; checks woven into it are none of its language
modules = [path.relative_to(ROOT).with_suffix("") for path in sorted(ROOT.glob("samc/**/*.py"))]
checked = [
    ".".join(path.parts)
    for path in modules
    if path.stem not in ("__init__", "__main__") and not (path.parent.name == "kernels" and path.stem in KERNELS)
]
hook = install_import_hook(checked, "beartype.beartype")

import pytest  # noqa: E402
from markupsafe import Markup  # noqa: E402

import samc  # noqa: E402, F401  (imported under the hook)
from samc.cli import main  # noqa: E402


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


@pytest.fixture(autouse=True)
def charts_where_they_are_looked_at(request, monkeypatch):
    """A run's page takes a second to draw: its charts are empty but for the tests of the page."""
    if request.module.__name__ not in ("test_page", "test_page_in_chromium", "test_view", "test_demo"):
        for part in ("charts", "frontier", "learning"):
            monkeypatch.setattr(f"samc.report.page.{part}.to_svg", lambda *_: Markup("<svg></svg>"))


@pytest.fixture
def command(capsys):
    """Calls the command line; returns exit code, stdout, and stderr without the lines on how a run goes on."""

    def call(*arguments):
        with pytest.raises(SystemExit) as exit_:
            main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return exit_.value.code or 0, captured.out, without_progress(captured.err)

    return call


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
