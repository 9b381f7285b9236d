"""Two runs side by side: the right differences, and a refusal that says which terms differ."""

import re
from dataclasses import replace

import pytest

from record_makers import record
from samc.errors import DataError
from samc.report.pair import pair_tables
from samc.report.terms import differing_terms


def test_two_runs_side_by_side():
    first = record(0.5, -0.1, model="gem", lr=0.1)
    second = record(0.56, -0.05, model="samc", seed=3, lr=0.1, threshold=0.7, images=12)
    measures, settings = pair_tables(first, second)
    assert [column.heading for column in measures.columns] == ["", "gem, seed 0", "samc, seed 3", "difference"]
    rows = {name: cells for name, *cells in measures.cells()}
    assert rows["ACC, %"] == ["50.00", "56.00", "+6.00"]
    assert rows["BWT, points"] == ["−10.00", "−5.00", "+5.00"]
    assert rows["extra bytes"] == ["0", "86,244", "+86,244"]
    assert settings.title == "settings that differ"
    assert {name: cells for name, *cells in settings.cells()} == {
        "seed": ["0", "3"], "model": ["gem", "samc"], "threshold": ["absent", "0.7"]
    }  # fmt: skip
    (only,) = pair_tables(first, first)
    assert only.notes == ("no setting differs",)


def test_runs_on_different_terms_are_refused():
    first = record(model="gem")
    terms = {
        **first.fingerprint,
        "accounting": "values",
        "class_order": [*first.fingerprint["class_order"][:4], [9, 8]],
    }
    second = replace(first, fingerprint=terms)
    assert differing_terms(first, second) == {
        "class_order": (first.fingerprint["class_order"], terms["class_order"]),
        "accounting": ("bytes", "values"),
    }
    with pytest.raises(DataError, match="accounting is 'bytes' in the first, 'values' in the second") as error:
        pair_tables(first, second)
    assert "class_order, entry 5, is [8, 9] in the first, [9, 8] in the second" in str(error.value)


def test_compare_from_the_command_line(tmp_path, command):
    made = record(0.5, model="gem")
    short = record(0.5, model="gem", n_tasks=1)
    other = replace(short, fingerprint={**short.fingerprint, "epochs": 2})
    for name, saved in (("a", made), ("b", replace(made, acc=0.6)), ("c", other)):
        (tmp_path / name).mkdir()
        saved.save(tmp_path / name)
    code, out, err = command("compare", tmp_path / "a", tmp_path / "b" / "record.json")
    assert (code, err) == (0, "")
    assert re.search(r"^ +gem, seed 0 +gem, seed 0 +difference *$", out, flags=re.M)
    assert re.search(r"^ACC, % +50\.00 +60\.00 +\+10\.00 *$", out, flags=re.M)
    assert "no setting differs" in out
    code, out, err = command("compare", tmp_path / "a", tmp_path / "c")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert (
        "class_order is of 5 entries in the first, of 1 in the second; epochs is 1 in the first, 2 in the second" in err
    )
    code, _, err = command("compare", tmp_path / "a", tmp_path)
    assert code == 2
    assert f"record.json is not there; name one of its runs, such as {tmp_path / 'a'}" in err
    code, _, err = command("compare", tmp_path / "a", tmp_path / "nothing")
    assert code == 2
    assert "nothing is not there; give the folder of a run" in err
