"""Every test runs with shapes and types of the package checked at each call, on one thread, offline."""

from jaxtyping import install_import_hook

hook = install_import_hook("samc", "beartype.beartype")

import pytest  # noqa: E402
import torch  # noqa: E402

import samc  # noqa: E402, F401  (imported under the hook)
from samc.cli import main  # noqa: E402


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


@pytest.fixture
def command(capsys):
    """Calls the command line; returns exit code, stdout and stderr."""

    def call(*arguments):
        with pytest.raises(SystemExit) as exit_:
            main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return exit_.value.code or 0, captured.out, captured.err

    return call


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
