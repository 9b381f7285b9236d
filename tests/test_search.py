"""A search: every combination on held-out images, the best first; mistakes are one line before anything is run."""

from itertools import product

import pytest

from record_makers import of_job
from samc.errors import ConfigError
from samc.experiments.jobs import Outcome
from samc.experiments.record_store import RecordStore
from samc.experiments.searching import parse_search
from samc.report.search_table import ranked, search_table
from samc.report.tables import to_markdown

TINY = ("--model", "er", "--backbone", "mlp", "--n-tasks", "2", "--samples-per-task", "10", "--device", "cpu")
MANY = ",".join(map(str, range(1, 40)))


def test_a_search_is_every_combination_for_every_seed_on_held_out_images():
    search = parse_search({"model": "er", "average": 0.9}, ["lr=0.1,0.03", "replay-current=true,false"], (0, 3))
    jobs = search.jobs()
    found = [(job.config.settings.lr, job.config.settings.replay_current, job.config.seed) for job in jobs.values()]
    assert found == list(product((0.1, 0.03), (True, False), (0, 3)))
    assert {(job.config.tested_on, job.config.settings.average) for job in jobs.values()} == {("held-out", 0.9)}
    assert [variant.label for _, variant, _ in jobs][::2] == [
        "lr 0.1, replay-current True", "lr 0.1, replay-current False",
        "lr 0.03, replay-current True", "lr 0.03, replay-current False",
    ]  # fmt: skip


def test_values_have_the_type_of_their_setting():
    texts = ["lr=1e-2", "replay_size=30", "--codec=jpeg:10,raw", "replay-current=false"]
    tried = parse_search({"model": "er"}, texts, (0,)).tried
    assert tried == {"lr": [0.01], "replay_size": [30], "codec": ["jpeg:10", "raw"], "replay_current": [False]}
    assert type(tried["replay_size"][0]) is int


@pytest.mark.parametrize(
    ("given", "texts", "message"),
    [
        ({}, [], "nothing is to be searched; write --grid lr=0.03,0.1"),
        ({}, ["lr"], "--grid 'lr' names no values; write --grid lr=0.03,0.1"),
        ({}, ["lr="], "--grid 'lr=' names no values"),
        ({}, ["lr=fast"], "--lr takes numbers, got 'fast'"),
        ({}, ["replay_size=1.5"], "--replay-size takes whole numbers, got '1.5'"),
        ({}, ["replay_current=1"], "--replay-current is true or false, got '1'"),
        ({}, ["lr=0.1,0.1"], "--grid lr=0.1,0.1: a value is named twice"),
        ({}, ["lr=0.1", "lr=0.2"], "--lr is said twice; name all of its values in one --grid"),
        ({"lr": 0.1}, ["lr=0.1,0.2"], "--lr is said twice"),
        ({}, ["memory-bytes=3KB,4KB"], "--memory-bytes is a term of the comparison, the same for all points; give it"),
        ({}, ["scenario=task,class"], "--scenario is a term of the comparison"),
        ({}, ["batch-size=5,10"], "--batch-size is a term of the comparison"),
        ({}, ["seed=1,2"], "--seed is a term of the comparison"),
        ({}, ["temperature=1,2"], "unknown setting of a grid 'temperature'"),
        ({"tested_on": "test"}, ["lr=0.1"], "a search is judged on held-out images of --seeds; leave --tested-on and"),
        ({}, [f"lr={MANY}", f"replay-size={MANY}"], "more than 1,000 points; name fewer values"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_one_line(given, texts, message):
    with pytest.raises(ConfigError) as error:
        parse_search({"model": "er", **given}, texts, (0,))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_point_that_cannot_be_is_refused_before_the_first_run():
    with pytest.raises(ConfigError, match=r"lr is above 0, got 0\.0"):
        parse_search({"model": "er"}, ["lr=0.1,0"], (0,)).jobs()


def test_points_are_ranked_and_compared_with_the_best_seed_by_seed(tmp_path):
    store = RecordStore(tmp_path)
    jobs = parse_search({"model": "er"}, ["lr=0.1,0.03,1"], (0, 1, 2)).jobs()
    accs = {0.1: (0.50, 0.55, 0.60), 0.03: (0.62, 0.66, 0.73)}
    for (_, variant, seed), job in jobs.items():
        if variant.settings["lr"] in accs:
            store.keep(job, Outcome(of_job(job, accs[variant.settings["lr"]][seed])))
    points = ranked({key: store.find(job) for key, job in jobs.items()})
    assert [point.variant.label for point in points] == ["lr 0.03", "lr 0.1"]
    lines = to_markdown([search_table("er", points)]).splitlines()
    assert lines[4].startswith("| lr 0.03 | 3 | 67.00 ± 5.57 | – | – |")
    assert lines[5].startswith("| lr 0.1 | 3 | 55.00 ± 5.00 | −12.00 | 0.002 |")  # differences −12, −11, −13


@pytest.mark.slow
def test_a_search_leaves_records_and_a_table_and_says_the_best(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ("search", *TINY, "--grid", "lr=0.01,0.1", "--seeds", "0,1", "--jobs", "1", "--out", "found")
    code, out, _ = command(*asked)
    assert code == 0
    assert "4 runs, 0 of them done, in found" in out
    table = (tmp_path / "found" / "search.md").read_text()
    assert table.startswith("# split-synthetic, er\n")
    best = table.splitlines()[4].split(" | ")[0].removeprefix("| lr ")
    shared = "samc run --model er --n-tasks 2 --samples-per-task 10 --backbone mlp"
    assert f"the best: {shared} --lr {best}\n" in out
    assert len(list((tmp_path / "found").rglob("record.json"))) == 4
    code, again, _ = command(*asked)
    assert "4 runs, 4 of them done, in found" in again
    assert again.partition("\n")[2] in out  # nothing is run twice
    code, out, err = command("search", *TINY, "--grid", "lr=0", "--out", "none")
    assert (code, out, err) == (2, "", "samc: lr is above 0, got 0.0; the paper uses 0.1\n")
    assert not (tmp_path / "none").exists()
