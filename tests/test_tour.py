"""examples/tour.ipynb: nine cells that run, and the outputs that they were left with."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOUR = ROOT / "examples" / "tour.ipynb"
CELLS = json.loads(TOUR.read_text())["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]


def text_of(lines):
    return lines if isinstance(lines, str) else "".join(lines)


def test_ten_cells_with_their_outputs_in_a_small_file():
    assert len(CELLS) == 10
    assert [cell["execution_count"] for cell in CODE] == list(range(1, 10))
    for cell in CODE:
        kinds = {output["output_type"] for output in cell["outputs"]}
        assert kinds
        assert kinds <= {"execute_result", "stream"}, "a warning or an error is left"
        assert all(output.get("name", "stdout") == "stdout" for output in cell["outputs"])
    assert TOUR.stat().st_size < 300_000


def test_the_pictures_are_there():
    shown = {kind for cell in CODE for output in cell["outputs"] for kind in output.get("data", ())}
    assert shown == {"text/plain", "text/html", "image/png"}


@pytest.mark.slow
def test_every_cell_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "tour"}
    for number, cell in enumerate(CODE, start=2):
        few = text_of(cell["source"]).replace("n_tasks=3)", "n_tasks=3, train_per_class=5)")
        exec(compile(few, f"tour.ipynb, cell {number}", "exec"), names)
    assert len(names["stream"][0].x) == 20  # the replacement above was made
    assert names["again"].predict(names["stream"][2].test_x[:3], 2).shape == (3,)
    assert names["why"]._repr_png_().startswith(b"\x89PNG")
    assert "in memory" in capsys.readouterr().out
