"""The demo, cut small: equal bytes, four records, and a picture whose columns are what memory really holds."""

from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from samc.cli import main
from samc.experiments import demo, jobs
from samc.experiments.pictures import PICTURES, read_pictures
from samc.learners import SAMC
from samc.protocol import Watcher
from samc.record import RunRecord
from samc.streams import split_synthetic


@pytest.fixture
def small(monkeypatch):
    few = partial(split_synthetic, train_per_class=5, test_per_class=2)
    monkeypatch.setattr(jobs, "configured_stream", lambda config, data_dir: few(config.seed))
    monkeypatch.setattr(SAMC, "end_task", lambda *_: None)  # the autoencoder's steps are tested elsewhere


@pytest.mark.slow
def test_the_demo_leaves_records_and_a_picture(small, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # a second demo replaces the first
        with pytest.raises(SystemExit) as exit_:
            main(["demo", "--out", "out", "--device", "cpu"])
        assert not exit_.value.code
    out = capsys.readouterr().out
    folders = ("finetune", "gem", "samc-as-in-the-paper", "samc-default-preset")
    records = dict(zip(demo.METHODS, (RunRecord.load(tmp_path / "out" / name) for name in folders), strict=True))
    budgets = {records[name].memory["budget_bytes"] for name in ("gem", demo.PAPER, demo.DEFAULT)}
    assert budgets == {30_730}
    assert len({str(record.fingerprint) for record in records.values()}) == 1
    for name, record in records.items():
        assert name in out
        assert f"{record.memory['memory_bytes']:,}" in out
    with Image.open(tmp_path / "out" / "memory.png") as picture:
        width, height = picture.size
    page = (tmp_path / "out" / "report.html").read_text()
    assert "report: out/report.html" in out
    assert all(
        f'data-panel="{panel}"' in page for panel in ("verdict", "accuracy", "learning", "costs", "memory", "again")
    )
    assert "plain red disc" in page
    assert "SAMC, default preset" in page
    assert width > 1000
    assert height > 300


def test_a_folder_with_other_things_is_left_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine" / "gem").mkdir(parents=True)
    (tmp_path / "mine" / "gem" / "record.json").write_text("precious")
    with pytest.raises(SystemExit) as exit_:
        main(["demo", "--out", "mine"])
    assert exit_.value.code == 2
    assert "mine holds something other than a demo; choose another --out" in capsys.readouterr().err
    assert (tmp_path / "mine" / "gem" / "record.json").read_text() == "precious"


@pytest.mark.slow
def test_what_the_picture_shows_is_what_memory_holds(small, tmp_path):
    outcomes = demo.demo(0, torch.device("cpu"), lambda name: Watcher())
    (tmp_path / PICTURES).write_bytes(outcomes[demo.PAPER].files[PICTURES])
    remembered = read_pictures(tmp_path / PICTURES)
    assert {image.task for image in remembered} == set(range(5))
    for image in remembered:
        kept = np.broadcast_to(image.mask[..., None], image.truth.shape)
        np.testing.assert_allclose(image.completed[kept], image.truth[kept], atol=1e-6)
        assert image.nbytes == 2 + 5 * image.mask.sum() + 1
    assert set(outcomes) == set(demo.METHODS)
