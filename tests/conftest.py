"""Every test runs with shapes and types of the package checked at each call, on one thread, offline."""

from jaxtyping import install_import_hook

hook = install_import_hook("samc", "beartype.beartype")

import pytest  # noqa: E402
import torch  # noqa: E402

import samc  # noqa: E402, F401  (imported under the hook)


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
