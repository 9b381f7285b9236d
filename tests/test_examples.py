"""Every example runs, on few images, is short, and is in the README's list."""

import re
import runpy
import sys
from pathlib import Path

import pytest

import samc

ROOT = Path(samc.__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PROMISED = {
    "own_network": r"plain: one past task after the other by autograd \(it is Network\)",
    "own_dataloader": r"EpisodicMemory\(5 tasks, 80 images, [\d,]+ of 153,700 bytes, jpeg:20\)",
    "class_incremental": r"no boundary told: +[\d.]+ %",
    "inside_avalanche": r"EpisodicMemory\(5 tasks, 80 images, [\d,]+ of 150,000 bytes, jpeg:20\)",
    "small_device": r"([\d,]+) bytes  everything",
}
# what each is sure to print


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:No loggers:UserWarning")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_on_few_images(path, monkeypatch, capsys):
    if path.stem == "inside_avalanche":
        import avalanche_makers  # noqa: F401  (which skips this where Avalanche is not installed)
    monkeypatch.setattr(sys, "argv", [path.name, "4"])
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    found = re.search(PROMISED[path.stem], printed)
    assert found, printed
    if path.stem == "small_device":
        parts = [int(size.replace(",", "")) for size in re.findall(r"([\d,]+) bytes  ", printed)]
        assert parts[-1] == sum(parts[:-1]) < 1_000_000


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_in_the_readme(path):
    assert len(path.read_text().splitlines()) < 40
    assert f"examples/{path.name}" in (ROOT / "README.md").read_text()
