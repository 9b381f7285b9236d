"""docs/guide.md is run: its Python blocks in their order, and its commands, on few images."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import samc
from samc.cli import main
from samc.learners.sampling import sample

ROOT = Path(samc.__file__).parents[2]
BLOCKS = re.findall(r"^```(python|sh)\n(.*?)^```$", (ROOT / "docs" / "guide.md").read_text(), flags=re.M | re.S)
FEW = ("--n-tasks", "2", "--samples-per-task", "20")
# of a run on the embedded stream, instead of minutes
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What the Python blocks define, after everything has been run in one folder; blocks build on those before."""
    folder, found = tmp_path_factory.mktemp("guide"), {"__name__": "guide"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        for number, (language, text) in enumerate(BLOCKS):
            if language == "sh":
                for line in text.splitlines():
                    run_command(*shlex.split(line))
            elif file := re.match(r"# (\w+\.py)\n", text):
                (folder / file[1]).write_text(text)
            else:
                exec(compile(text, f"guide.md, block {number}", "exec"), found)
    return found


def run_command(program, *arguments):
    if program == "python":  # flags are made when samc starts, so that it must start anew
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return
    assert program == "samc"
    small = arguments[0] == "run" and "--help" not in arguments
    few = FEW if small and "--dataset" not in arguments else ()
    quick = ("--autoencoder-steps", "2") if small and "samc" in arguments else ()
    with pytest.raises(SystemExit) as exit_:
        main([*arguments, *few, *quick])
    assert not exit_.value.code, arguments


def test_every_block_runs(names):
    assert {language for language, _ in BLOCKS} == {"python", "sh"}
    assert len(BLOCKS) > 20
    assert names["record"].config["model"] == "marginer"


def test_the_margin_of_the_guide_is_none_at_zero(names):
    learner = names["MarginER"](image_shape=(3, 16, 16), lr=0.05, margin=0.0)
    first, second = (torch.randint(0, 256, (6, 3, 16, 16), dtype=torch.uint8) for _ in range(2))
    learner.observe(first, torch.tensor([0, 1] * 3), 0)
    batch = learner.as_batch(second, torch.tensor([2, 3] * 3), 1)
    batches = [batch, *sample(learner.past, 6, torch.Generator().manual_seed(0))]
    own, _ = learner.engine.gradient_of(learner.loss, *learner.model.joined(batches), torch.arange(12) >= 6)
    plain, _ = learner.engine.gradient(batches)
    assert torch.allclose(own, plain, atol=1e-6)


def test_the_weights_of_the_guide_are_kept_in_a_state(names):
    learner, other = (names["HardER"](image_shape=(3, 16, 16), lr=0.05) for _ in range(2))
    samc.run(names["datasets"], learner)
    other.load_state_dict(learner.state_dict())
    assert other.memory_loss == learner.memory_loss
    assert sum(other.weight(task) for task in (0, 1)) == pytest.approx(2)
    x, y = names["datasets"][1][:10]
    assert torch.equal(learner.observe(x, y, 1).loss, other.observe(x, y, 1).loss)
