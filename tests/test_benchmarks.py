"""Benchmarks run, and leave figures that are numbers; how large they are is not tested here."""

import importlib
import json
import math
import sys
from pathlib import Path

import pytest
import torch

from toys import needs_triton

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """A benchmark as a module, found beside the others as when it is called."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["against_loop", "past_tasks", "best_step", "phases", "leak", "plain_way", "checkpoints"]
)
def test_a_quick_try_leaves_finite_figures(name, script, tmp_path, capsys):
    script(name).main(["--quick", "--device", "cpu", "--results", str(tmp_path)])
    (path,) = tmp_path.glob("*.json")
    assert path.name == f"{name.replace('_', '-')}-cpu.json"
    result = json.loads(path.read_text())
    assert set(result) == {"claim", "found", "rows", "device", "versions", "threads", "quick"}
    assert result["quick"]
    # as torch lays out a network, the plain way has the loop's rows to the last bit
    gaps = [row.pop("largest difference of a row") for row in result["rows"]] if name == "plain_way" else []
    assert all(0 <= gap < 1e-3 for gap in gaps)
    numbers = [value for row in result["rows"] for value in row.values() if not isinstance(value, str)]
    assert len(numbers) >= 3
    assert all(math.isfinite(number) and number > 0 for number in numbers)
    if name == "against_loop":  # what is compared computes the same
        assert result["rows"][0]["first step apart"] < 1e-3
    if name == "plain_way":
        assert len(gaps) == 2
        assert all(row["way"].endswith("by autograd (it is ResNet18)") for row in result["rows"])
    script("table").main(["--results", str(tmp_path), "--rows"])
    printed = capsys.readouterr().out
    assert result["claim"] in printed
    assert path.name in printed


@pytest.mark.slow
def test_the_same_gradients_again_and_again_in_processes_side_by_side(script, tmp_path):
    script("repeatable").main(["--quick", "--device", "cpu", "--results", str(tmp_path)])
    result = json.loads((tmp_path / "repeatable-cpu.json").read_text())
    assert [(row["processes"], row["repetitions"], row["not as the first"]) for row in result["rows"]] == [
        (1, 3, 0),
        (2, 6, 0),
    ]


@needs_triton
@pytest.mark.parametrize(
    ("of", "kernels", "count"),
    [("gradients", {"forward", "strided_back", "weight"}, 32), ("inference", {"forward"}, 15)],
)
def test_another_tile_covers_what_the_tile_in_use_covers(script, monkeypatch, of, kernels, count):
    tiles = script("tiles")
    monkeypatch.setattr(tiles, "PAST", 1)
    found = tiles.calls(of, 2, 8, torch.device("cpu"))
    assert {call.name for call in found.values()} == kernels
    assert len(found) == count
    for call in found.values():
        assert call.using(call.tile) == call
        columns = call.channels
        programs = call.grid[0] // math.ceil(columns / call.tile.columns)
        for tile in tiles.others(call, of):
            other = call.using(tile)
            assert other.tile == tile
            assert other.grid[0] // math.ceil(columns / tile.columns) * tile.rows >= programs * call.tile.rows
            assert other.grid[1:] == call.grid[1:]


@pytest.mark.slow
def test_a_quick_try_is_not_taken_for_a_result(script, capsys):
    before = sorted((FOLDER / "results").iterdir())
    script("leak").main(["--quick", "--device", "cpu"])
    assert sorted((FOLDER / "results").iterdir()) == before
    assert "| memory |" in capsys.readouterr().out


def test_without_avalanche_one_line_says_so(script, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "avalanche", None)
    script("against_avalanche").main(["--quick", "--device", "cpu", "--results", str(tmp_path)])
    assert "pip install 'samc[avalanche]'" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_avalanche_and_ours_side_by_side(script, tmp_path, capsys):
    import avalanche_makers  # noqa: F401  (which skips this where Avalanche is not installed)

    script("against_avalanche").main(["--quick", "--device", "cpu", "--results", str(tmp_path)])
    result = json.loads((tmp_path / "against-avalanche-cpu.json").read_text())
    assert [row["method"] for row in result["rows"]] == ["GEM", "A-GEM", "Replay (our ER)", "GEM, one step"]
    for row in result["rows"]:
        assert row["avalanche ms"] > 0 < row["ours ms"]
    # of the same network and order; memories are drawn otherwise, and few images are learnt
    assert all(0 <= float(row["ACC % ours"].split()[0]) <= 100 for row in result["rows"][:-1])
    capsys.readouterr()
    script("table").main(["--results", str(tmp_path), "--rows", "--only", "against-avalanche-cpu"])
    assert result["found"] in capsys.readouterr().out
    with pytest.raises(SystemExit, match="holds no leak-cpu yet"):
        script("table").main(["--results", str(tmp_path), "--only", "leak-cpu"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gem", "agem", "er"])
def test_avalanche_and_ours_make_the_same_steps(name, script, monkeypatch):
    """The same network, images in the same order, number of steps and step size, and as much memory."""
    import avalanche_makers  # noqa: F401  (which skips this where Avalanche is not installed)

    compared, side = script("against_avalanche"), script("avalanche_side")
    stream = compared.split_synthetic(0, train_per_class=6, n_tasks=2)
    theirs, ours = compared.memory_of(name, len(stream))
    known = {"task_classes": stream.task_classes, "lr": 0.02, "seed": 0}
    made = compared.LEARNERS[name](stream.num_classes, stream.image_shape, **known, **ours)
    strategy = side.strategy_of(name, side.WithHeads(made), 0.02, compared.BATCH, **theirs)
    benchmark = side.benchmark_of(side.as_batches(stream, compared.BATCH))
    learnt, moved, before = [], [], torch.cat([p.detach().flatten() for p in made.model.parameters()])
    step = strategy.optimizer.step

    def stepped(*given):
        step(*given)
        learnt.append((strategy.mb_x[: compared.BATCH].clone(), strategy.mb_y[: compared.BATCH].clone()))
        moved.append(torch.cat([p.detach().flatten() for p in strategy.model.inner.parameters()]) - before)

    monkeypatch.setattr(strategy.optimizer, "step", stepped)
    compared.learn_theirs(strategy, benchmark.train_stream[0])
    batches = list(stream[0].batches(compared.BATCH))
    assert len(learnt) == len(batches) == 3
    for (x, y), (mine, labels) in zip(learnt, batches, strict=True):
        assert torch.equal(x, mine.float() / 255)
        assert torch.equal(y, labels)
    made.begin_task(stream[0])
    made.observe(*batches[0], 0)
    mine = torch.cat([p.detach().flatten() for p in made.model.parameters()]) - before
    # batch norm of images that are nearly alike blows roundings up: that is as near as float32 comes
    assert float((mine - moved[0]).norm() / moved[0].norm()) < 0.02
    compared.learn_ours(made, stream[0])
    compared.learn_theirs(strategy, benchmark.train_stream[1])
    compared.learn_ours(made, stream[1])
    assert len(learnt) == 6
    plugin = strategy.plugins[0]
    remembered = {
        "gem": lambda: sum(map(len, plugin.memory_y.values())),
        "agem": lambda: sum(map(len, plugin.buffers)),
        "er": lambda: len(plugin.storage_policy.buffer),
    }
    assert sum(made.memory.images_per_task.values()) == remembered[name]() == 2 * compared.BATCH


def test_a_page_beside_avalanche_says_what_its_figures_say(script, capsys):
    for path in (FOLDER / "results").glob("against-avalanche-*.json"):
        script("table").main(["--rows", "--only", path.stem])
        assert path.with_suffix(".md").read_text() == capsys.readouterr().out


def test_what_of_encoding_is_not_hidden_is_what_gem_does_not_have_in_no_phase(script, tmp_path, capsys):
    folder = FOLDER.parent / "results" / "split-cifar100-fast"
    given = ["--device", "cpu", "--results", str(tmp_path), "--record", str(folder / "samc" / "record.json")]
    script("phases").main([*given, "--beside", str(folder / "gem" / "record.json")])
    result = json.loads((tmp_path / "phases-nvidia-h200.json").read_text())
    seconds = {row["phase"]: row["seconds"] for row in result["rows"]}
    spent = {}
    for model in ("gem", "samc"):
        spent[model] = json.loads((folder / model / "record.json").read_text())["seconds"]
        spent[model]["no phase"] = 2 * spent[model]["total"] - sum(spent[model].values()) + spent[model]["encoding"]
    assert seconds["encoding, not hidden"] == pytest.approx(spent["samc"]["no phase"] - spent["gem"]["no phase"])
    own = spent["samc"]["saliency"] + spent["samc"]["completion"] + seconds["encoding, not hidden"]
    assert seconds["all but autoencoder"] == pytest.approx(own)
    assert result["found"] in capsys.readouterr().out
    kept = json.loads((FOLDER / "results" / "phases-nvidia-h200.json").read_text())
    assert result["rows"] == kept["rows"]
    with pytest.raises(SystemExit, match="not of GEM"):
        script("phases").main([*given, "--beside", str(folder / "samc" / "record.json")])
