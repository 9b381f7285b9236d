"""`samc data` from the command line: what it prints, and what it raises for `samc` to print."""

import hashlib
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from data_makers import listing, make_cifar
from samc.cli.data import KNOWN, app
from samc.errors import ConfigError, DataError
from samc.streams.cifar import FOLDERS
from samc.streams.fetch import ARCHIVES


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def words(text: str) -> str:
    """Text without a table's lines and wrapping."""
    return " ".join("".join(" " if letter in "│┃┏┓┡┩└┘━─┳╇┴╭╮╰╯" else letter for letter in text).split())


@pytest.fixture
def data_dir(tmp_path, monkeypatch):
    """A small CIFAR-10 and a small mini-ImageNet, but no CIFAR-100."""
    make_cifar(tmp_path, "cifar-10-batches-bin", monkeypatch)
    (tmp_path / "mini-imagenet").mkdir()
    for part, n in (("train", 3), ("test", 2)):
        np.savez(tmp_path / "mini-imagenet" / part, x=np.zeros((n * 2, 84, 84, 3), np.uint8), y=[0, 1] * n)
    return tmp_path


def test_list_says_what_is_found_and_what_is_accepted(data_dir):
    result = run("list", "--data-dir", data_dir)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"in {data_dir}:\n")
    table = words(result.stdout)
    assert "cifar10 cifar-10-batches-py/ cifar-10-batches-bin/ cifar-10-batches-bin/" in table
    assert "cifar100 cifar-100-python/ no cifar-100-binary/" in table
    assert "mini-imagenet mini-imagenet/{train,test}.npz mini-imagenet/" in table


def test_the_data_dir_comes_from_the_environment(data_dir, monkeypatch):
    monkeypatch.setenv("SAMC_DATA", str(data_dir))
    assert run("list").stdout.startswith(f"in {data_dir}:\n")


def test_check_has_one_line_per_set(data_dir, monkeypatch):
    monkeypatch.setitem(KNOWN, "cifar10", replace(KNOWN["cifar10"], per_class=10, test_per_class=2))
    result = run("check", "--data-dir", data_dir)
    assert result.exit_code == 0
    cifar10, cifar100, mini, *others = result.stdout.splitlines()
    assert others == [f"{name}: missing from {data_dir}" for name in ("mnist", "tiny-imagenet", "core50")]
    assert cifar10 == (
        "cifar10: ok, 100 training and 20 test images of 32x32x3, 10 classes, 10 and 2 per class; "
        "CIFAR-10, official files, checksums verified"
    )
    assert cifar100 == f"cifar100: missing from {data_dir}"
    assert mini.startswith(
        "mini-imagenet: readable but unusual, 6 training and 4 test images of 84x84x3, 2 classes, 3 to 3 and 2 to 2 "
        "per class where 100 classes with 500 and 100 are usual; mini-ImageNet, npz files, sha1 of the test images "
    )


@pytest.mark.parametrize("change", [{"classes": 11}, {"per_class": 11}, {"test_per_class": 3}])
def test_every_count_that_is_off_is_unusual(data_dir, monkeypatch, change):
    usual = replace(KNOWN["cifar10"], per_class=10, test_per_class=2)
    monkeypatch.setitem(KNOWN, "cifar10", replace(usual, **change))
    assert run("check", "cifar10", "--data-dir", data_dir).stdout.startswith("cifar10: readable but unusual, ")


def test_the_layouts_that_are_listed_are_those_that_are_read():
    for name, folders in FOLDERS.items():
        assert KNOWN[name].layouts == tuple(f"{folder}/" for folder in folders)


def test_what_the_data_sets_should_hold():
    counts = {
        name: known.images or (known.classes * known.per_class, known.classes * known.test_per_class)
        for name, known in KNOWN.items()
    }
    assert counts == {
        **dict.fromkeys(("cifar10", "cifar100", "mini-imagenet"), (50_000, 10_000)),
        "mnist": (60_000, 10_000),
        "tiny-imagenet": (100_000, 10_000),
        "core50": (119_894, 44_972),  # frames of eight and of three sessions
    }
    assert sum(counts["core50"]) == 164_866


def test_check_of_a_damaged_set_goes_on_to_the_others_and_then_raises(data_dir):
    damaged = data_dir / "cifar-10-batches-bin" / "data_batch_2.bin"
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    result = run("check", "--data-dir", data_dir)
    assert isinstance(result.exception, DataError)
    assert str(result.exception).startswith(f"{damaged} is damaged: sha1 ")
    assert "run `samc data fetch cifar10` to get it again" in str(result.exception)
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["cifar100", *list(KNOWN)[2:]]


def test_check_by_name(data_dir):
    assert run("check", "cifar10", "--data-dir", data_dir).stdout.count("\n") == 1
    missing = run("check", "cifar100", "--data-dir", data_dir)
    assert isinstance(missing.exception, DataError)
    assert str(missing.exception).startswith(f"cifar100 is not in {data_dir}: expected cifar-100-python/")
    unknown = run("check", "cifar", "--data-dir", data_dir)
    assert isinstance(unknown.exception, ConfigError)
    assert "unknown data set 'cifar': did you mean 'cifar10'?" in str(unknown.exception)


def test_fetch_says_where_it_went_and_then_that_it_is_there(tmp_path, monkeypatch):
    made = tmp_path / "made"
    make_cifar(made, "cifar-100-python", monkeypatch)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(made / "cifar-100-python", "cifar-100-python")
    md5 = hashlib.md5((tmp_path / "a.tar.gz").read_bytes()).hexdigest()
    monkeypatch.setitem(ARCHIVES, "cifar100", replace(ARCHIVES["cifar100"], md5=md5))
    arguments = ("fetch", "cifar100", "--data-dir", tmp_path / "data", "--url", (tmp_path / "a.tar.gz").as_uri())
    first = run(*arguments)
    assert first.exit_code == 0
    assert first.stdout.splitlines()[-1] == f"cifar100: fetched to {tmp_path / 'data' / 'cifar-100-python'}"
    assert len(listing(tmp_path / "data")) == 4
    second = run(*arguments)
    assert second.stdout.splitlines()[-1] == f"cifar100: already intact in {tmp_path / 'data' / 'cifar-100-python'}"


def test_fetch_raises_for_samc_to_print(tmp_path):
    result = run("fetch", "cifar100", "--data-dir", tmp_path, "--url", (tmp_path / "none.tar.gz").as_uri())
    assert isinstance(result.exception, DataError)
    assert "none.tar.gz is not there; download cifar-100-python.tar.gz elsewhere" in str(result.exception)
    assert isinstance(run("fetch", "imagenet", "--data-dir", tmp_path).exception, ConfigError)


@pytest.mark.parametrize("command", ["list", "check", "fetch"])
def test_help_has_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Examples: samc data {command}" in words(result.stdout)
    assert "--data-dir" in result.stdout
