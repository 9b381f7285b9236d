"""The command line from outside: every mistake is one line on stderr and exit code 2, and leaves nothing behind."""

import errno
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from samc.cli.run import EXTRA
from samc.config import RunConfig, flag, setting_fields
from samc.engine import Engine
from samc.learners import LEARNERS, described
from samc.memory.file import load as samc_memory
from samc.version import VERSION

QUICK = ("--dataset", "npz:tiny.npz", "--n-tasks", "2", "--device", "cpu")


@pytest.fixture
def samc(command, tmp_path, monkeypatch):
    """Calls the command line in an empty folder; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAMC_DATA", str(tmp_path / "no-data"))
    x = np.random.default_rng(0).integers(0, 256, (60, 10, 10, 3), dtype=np.uint8)
    np.savez("tiny.npz", x=x, y=np.arange(60) % 4)
    return command


def refused(result, *words):
    """Exit code 2 and one line that has all the words."""
    code, _, err = result
    assert code == 2, err
    assert err.startswith("samc: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err
    return True


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("run", "--model", "smac"),
            (
                "unknown model 'smac'",
                "did you mean 'samc'",
                "finetune, joint, ewc, lwf, icarl, gem, agem, er, der, mer, ebm, eec, samc",
            ),
        ),
        (("run", "--dataset", "split-cifar1000"), ("unknown dataset", "did you mean 'split-cifar100'")),
        (("run", "--treshold", "0.5"), ("--treshold", "--threshold")),
        (("run", "--threshold", "1.0"), ("threshold is in [0, 1), got 1.0", "the paper uses 0.7")),
        (("run", "--threshold", "-0.1"), ("threshold is in [0, 1), got -0.1",)),
        (("run", "--threshold", "much"), ("Invalid value for", "--threshold")),
        (("run", "--buffer-size", "0"), ("buffer-size is at least 1, got 0; the paper uses 10",)),
        (("run", "--lr", "0"), ("lr is above 0",)),
        (("run", "--n-tasks", "9"), ("split-synthetic can be cut into 1 to 5 tasks, got n-tasks 9",)),
        (("run", "--model", "finetune", "--completion", "zero"), ("finetune has no --completion; it takes --lr",)),
        (("run", "--completion", "tela"), ("unknown completion 'tela'", "did you mean 'telea'")),
        (("run", "--preset", "papper"), ("unknown preset 'papper'", "did you mean 'paper'")),
        (("run", "--device", "gpu"), ("unknown device 'gpu'",)),
        (("run", "--dataset", "split-cifar100"), ("cifar100 is not in", "samc data fetch cifar100")),
        (("run", "--dataset", "split-mini-imagenet"), ("mini-imagenet is not in", "--data-dir")),
        (("run", "--dataset", "npz:absent.npz"), ("absent.npz is not there",)),
        (("run", "--dataset", "folder:absent"), ("absent/train is not there",)),
        (("run", "--seed", "-1"), ("seed is in [0, 9223372036854775807], got -1",)),
        (("demo", "--seed", "-1"), ("seed is in [0, 9223372036854775807], got -1",)),
        (("run", "--model", "finetune", "--memory-bytes", "abc"), ("memory-bytes is like 30KB/task",)),
        (
            ("run", "--model", "finetune", "--buffer-size", "-1"),
            ("buffer-size is at least 1, got -1; the paper uses 10",),
        ),
        (("run", "--codec", ""), ("codec is empty; leave it out, or give it a value",)),
        (("run", "--codec", "gist:webp:20"), ("lacks what is kept above the gist; write gist:webp:20+cam",)),
        (("run", "--device", ""), ("unknown device ''",)),
        (("run", "--seeds", "9223372036854775808"), ("of numbers below 2^63",)),
        (("run", "--foo"), ("No such option: --foo", "see: samc run --help")),
        (("memory", "show"), ("Missing argument", "see: samc memory show --help")),
        (("results", ".", "--page", "record.json"), ("--page is a page's name that ends in .md, got record.json",)),
        (("results", ".", "--page", ""), ("--page is the file to write, and . is a folder",)),
        (("data", "check"), ("no data set is in", "samc data fetch cifar100")),
        (("run", "--lr", "inf"), ("lr is above 0, got inf; the paper uses 0.1",)),
        (("rnu",), ("rnu", "run")),
        (("data", "fetch", "cifar"), ("unknown data set 'cifar'", "did you mean 'cifar1")),
    ],
)
def test_mistakes(samc, tmp_path, arguments, words):
    assert refused(samc(*arguments), *words)
    assert list(tmp_path.rglob("*.json")) == []
    assert not (tmp_path / "runs").exists() or list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.full((20, 4, 4, 3), np.nan), np.arange(20) % 2, ("NaN",)),
        (np.zeros((20, 4, 4, 3), np.uint8), np.arange(19) % 2, ("labels",)),
        (np.zeros((20, 4, 4, 3), np.uint8), np.linspace(0, 1, 20), ("labels",)),
        (np.zeros((20, 4, 4, 2), np.uint8), np.arange(20) % 2, ("height, width, 1 or 3",)),
    ],
)
def test_own_arrays_that_make_no_sense(samc, x, y, words):
    np.savez("own.npz", x=x, y=y)
    assert refused(samc("run", "--dataset", "npz:own.npz"), *words)


@pytest.mark.slow
def test_a_run_writes_a_record_and_shows_a_table(samc, tmp_path):
    cut = ("--n-tasks", 2, "--samples-per-task", 20, "--autoencoder-steps", 2)
    code, out, err = samc("run", "--model", "samc", "--dataset", "split-synthetic", "--seed", 3, "--out", "here", *cut)
    assert (code, err) == (0, "")
    record = json.loads((tmp_path / "here" / "record.json").read_text())
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == [
        "learner.safetensors",
        "memory.samc",
        "progress.jsonl",
        "recollection.npz",
        "record.json",
        "report.html",
    ]
    assert samc_memory(tmp_path / "here" / "memory.samc").nbytes == record["memory"]["memory_bytes"]
    assert record["config"]["seed"] == 3
    assert record["config"]["lr"] == 0.02
    assert len(record["accuracy_matrix"]) == 3
    assert record["fingerprint"]["training_images"] == [20, 20]
    assert "preset for split-synthetic: --lr 0.02" in out
    assert f"{100 * record['acc']:.1f}" in out
    assert f"{record['memory']['memory_bytes']:,}" in out


@pytest.mark.slow
def test_the_same_command_twice_gives_the_same_record(samc, tmp_path):
    for folder in ("a", "b"):
        assert samc("run", *QUICK, "--out", folder, "--autoencoder-steps", 2)[0] == 0
    a, b = (json.loads((tmp_path / folder / "record.json").read_text()) for folder in ("a", "b"))
    assert a.pop("seconds").keys() == b.pop("seconds").keys()
    assert a == b


def test_underscores_are_flags_too_and_own_data_runs(samc, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (60, 10, 10), dtype=np.uint8)
    np.savez("own.npz", x=x, y=np.array(list("abcdef") * 10))
    code, _, err = samc("run", "--model", "gem", "--dataset", "npz:own.npz", "--n_tasks", 3, "--buffer_size", 2)
    assert (code, err) == (0, "")
    (path,) = (tmp_path / "runs").glob("*/record.json")
    record = json.loads(path.read_text())
    assert record["memory"]["images_per_task"] == [2, 2, 2]
    assert record["fingerprint"]["class_order"] == [[0, 1], [2, 3], [4, 5]]


def test_a_run_is_never_overwritten(samc, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "record.json").write_text("precious")
    assert refused(samc("run", *QUICK, "--out", "taken"), "taken already holds a run; choose another --out")
    assert (tmp_path / "taken" / "record.json").read_text() == "precious"


def test_a_folder_without_permission(samc, tmp_path, monkeypatch):
    def denied(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(tempfile, "TemporaryFile", denied)  # root, which tests may run as, is denied nothing
    assert refused(samc("run", *QUICK, "--out", "locked"), "cannot write to locked: Permission denied", "another --out")
    assert list(tmp_path.rglob("*.json")) == []


def test_a_place_that_is_no_folder(samc, tmp_path):
    (tmp_path / "file").write_text("")
    assert refused(samc("run", *QUICK, "--out", "file/run"), "cannot write to file/run", "choose another --out")


def test_an_interrupted_run_leaves_nothing(samc, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "step", interrupt)
    code, _, err = samc("run", *QUICK, "--out", "stopped")
    assert code == 130
    assert err == "samc: interrupted; nothing half-written is left\n"
    assert not (tmp_path / "stopped").exists()


def test_help_has_examples_and_every_setting(samc):
    code, out, _ = samc("run", "--help")
    assert code == 0
    for word in ("Examples:", "--threshold", "--completion", "--saliency-target", "--buffer-size", "--memory-strength"):
        assert word in out
    assert "batch is train with statistics put back: eval or train or batch [default: eval]" in " ".join(out.split())
    for word in ("--n-tasks", "--samples-per-task", "--replay", "--accounting", "--device", "--preset", "--data-dir"):
        assert word in out


def test_help_groups_its_flags_and_shows_those_of_the_default_method(samc):
    code, out, err = samc("run", "--help")
    assert (code, err) == (0, "")
    titles = [line for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["What to learn:", "Memory:", f"{METHOD.format('samc')}:", "Run:"]
    groups = sections(out, titles)
    for title, flags in {
        "What to learn:": ("--model", "--dataset", "--preset", "--n-tasks", "--batch-size", "--backbone", "--weights"),
        "Memory:": ("--buffer-size", "--memory-bytes", "--accounting", "--codec", "--keeps"),
        titles[2]: ("--lr", "--threshold", "--replay", "--completion", "--autoencoder-steps"),
        "Run:": ("--seed", "--seeds", "--data-dir", "--device", "--out", "--diagnose", "--help"),
    }.items():
        assert set(flags) <= groups[title]
    every = [flag for flags in groups.values() for flag in flags]
    assert len(every) == len(set(every))
    assert not {"--temperature", "--fisher-images", "--meta-lr", "--encoder-steps"} & set(every)


METHOD = "Method ({}; another's: samc run --model NAME --help)"


def sections(out, titles):
    """The flags under each title."""
    found, title = {}, None
    for line in out.splitlines():
        if line in titles:
            title = line
        elif title and line.startswith("  --"):
            found.setdefault(title, set()).add(line.split()[0])
    return found


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("how", [("--model", "{}", "--help"), ("--help", "--model={}")])
def test_help_of_a_method_shows_its_own_flags_only(samc, name, how):
    code, out, err = samc("run", *(word.format(name) for word in how))
    assert (code, err) == (0, "")
    titles = ["What to learn:", "Memory:", f"{METHOD.format(name)}:", "Run:"]
    shown = set().union(*sections(out, titles).values())
    own = {flag(setting) for setting in (*LEARNERS[name].Settings.names(), *RunConfig.names())}
    assert shown == own | {flag(extra) for extra in EXTRA} | {"--help"}
    text = " ".join(out.split())
    for item in setting_fields(LEARNERS[name].Settings):
        if isinstance(item.default, int | float):
            # a switch has its opposite where others say what they take
            beside = f"/ {flag(f'no_{item.name}')}" if isinstance(item.default, bool) else r"<\w+>"
            assert re.search(rf"{flag(item.name)} {beside} [^<]*\[default: {re.escape(str(item.default))}\]", text)


@pytest.mark.parametrize("name", LEARNERS)
def test_models_shows_one_methods_flags_with_their_defaults(samc, name):
    code, out, err = samc("models", name)
    assert (code, err) == (0, "")
    first, empty, *lines = out.splitlines()
    assert first == described(name)
    assert empty == ""
    assert max(map(len, lines)) <= 100
    own = LEARNERS[name].Settings
    assert [line.split()[0] for line in lines if line.startswith("--")] == [flag(setting) for setting in own.names()]
    assert " ".join(out.split()).count("[default: ") == sum(item.default is not None for item in setting_fields(own))
    assert ("--threshold" in out) == (name == "samc")


def test_models_refuses_a_method_that_is_not_there(samc):
    assert refused(samc("models", "gemm"), "unknown model 'gemm'", "did you mean 'gem'")


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_what_needs_no_network_starts_at_once(argument):
    """CPU time, which a busy machine does not lengthen; the better of two, since the first may compile sources."""
    taken = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "samc", argument], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(taken) < 0.5


@pytest.mark.parametrize(
    "action",
    [
        "import samc",
        "import samc; samc.__version__; dir(samc)",
        "from samc.cli import main; main(['--help'])",
        "from samc.cli import main; main(['--version'])",
        "from samc.cli import main; main(['rnu'])",
    ],
)
def test_torch_is_imported_only_where_it_is_needed(action):
    heavy = "{'torch', 'numpy', 'cv2', 'PIL', 'matplotlib', 'ray', 'rich'}"
    script = (
        f"import sys\ntry:\n    {action}\nexcept SystemExit: pass\nprint('loaded', sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded []"


def test_a_network_that_goes_the_plain_way_is_said_once(samc):
    code, out, err = samc("run", "--model", "gem", "--backbone", "mlp", *QUICK, "--seeds", "0-1", "--out", "mlp")
    assert (code, err) == (0, "")
    line = "network: plain: one past task after the other by autograd (it is MLP)"
    assert out.splitlines().count(line) == 1
    assert out.count("network:") == 1


def test_a_network_that_is_known_needs_no_word(samc):
    code, out, err = samc("run", "--model", "gem", *QUICK, "--out", "known")
    assert (code, err) == (0, "")
    assert "network" not in out


@pytest.mark.slow
def test_the_module_is_the_command():
    found = subprocess.run(
        [sys.executable, "-m", "samc", "run", "--model", "gemm"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert found.stderr.startswith("samc: unknown model 'gemm': did you mean 'gem'?")
    assert found.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_budget_in_bytes_is_one_of_the_terms(samc, tmp_path):
    records = []
    for budget in ("5KB/task", "9KB"):
        name = budget.replace("/", "-")
        assert samc("run", "--model", "gem", *QUICK, "--memory-bytes", budget, "--out", name)[0] == 0
        records.append(json.loads((tmp_path / name / "record.json").read_text()))
    assert [record["fingerprint"]["memory_bytes"] for record in records] == ["5KB/task", "9KB"]
    assert all(record["fingerprint"]["budget_images"] is None for record in records)
    code, out, _ = samc("report", ".", "--markdown")
    assert code == 0
    assert out.count("| gem |") == 2
    assert "budget 9KB, counted in bytes" in out


def test_models_has_one_line_for_each(samc):
    code, out, err = samc("models")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == list(LEARNERS)
    assert all(len(line) > 60 for line in lines)


@pytest.mark.slow
def test_report_shows_runs_side_by_side(samc):
    for seed in (0, 1):
        assert samc("run", *QUICK, "--autoencoder-steps", 2, "--seed", seed, "--out", f"runs/{seed}")[0] == 0
    code, out, err = samc("report", "runs", "--markdown")
    assert (code, err) == (0, "")
    assert "| samc | 0, 1 |" in out
    assert samc("report", "runs")[0] == 0
    assert refused(samc("report", "nowhere"), "nowhere holds no record.json")


@pytest.mark.parametrize("group", [(), ("memory",), ("data",)])
def test_a_command_without_its_subcommand_shows_its_help(samc, group):
    code, out, err = samc(*group)
    assert (code, err) == (2, "")
    assert out.startswith(f"Usage: {' '.join(('samc', *group))}")
    assert "Commands:" in out


def test_version(samc):
    assert samc("--version") == (0, f"{VERSION}\n", "")


@pytest.mark.slow
def test_where_output_knows_no_minus_it_is_a_hyphen():
    folder = Path(__file__).parent.parent / "results" / "split-synthetic"
    for encoding in ("ascii", "latin-1", "utf-8"):
        done = subprocess.run(
            [sys.executable, "-m", "samc", "report", folder, "--markdown"],
            env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, check=True
        )  # fmt: skip
        out = done.stdout.decode(encoding)
        assert "?" not in out
        assert ("−16.1" in out, "-16.1" in out) == ((True, False) if encoding == "utf-8" else (False, True))
        assert ("+/- 4.0" in out) == (encoding == "ascii")


def test_a_narrow_terminal_gets_whole_numbers(samc, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    code, out, _ = samc("run", *QUICK, "--model", "gem", "--out", "here")
    assert code == 0
    assert "…" not in out
    assert "…" not in samc("memory", "info", "here")[1]


def test_the_table_of_a_run_is_whole_in_sixty_columns(samc, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    code, out, _ = samc("run", *QUICK, "--model", "er", "--out", "here")
    assert code == 0
    table = out[out.index("npz:tiny.npz, seed 0") : out.index("report: ")]
    assert max(map(len, table.splitlines())) <= 60
    assert len(table.splitlines()[-1].split()) == 8  # a line for all of its figures


def test_a_drawn_report_cuts_no_number_short_in_eighty_columns(samc, monkeypatch):
    folder = Path(__file__).parent.parent / "results" / "split-synthetic"
    _, _, header, _, *rows = samc("report", folder, "--markdown")[1].strip().splitlines()
    monkeypatch.setenv("COLUMNS", "80")
    code, drawn, err = samc("report", folder)
    assert (code, err) == (0, "")
    assert max(map(len, drawn.splitlines())) <= 80
    words = drawn.split()
    for line in (header, *rows):
        assert all(word in words for word in line.replace("|", " ").split()), line


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_every_method_runs_from_the_command_line(samc, tmp_path, name):
    code, _, err = samc("run", "--model", name, *QUICK, "--out", "here")
    assert (code, err) == (0, "")
    record = json.loads((tmp_path / "here" / "record.json").read_text())
    assert record["config"]["model"] == name
    assert record["memory"]["bytes"] == sum(record["memory"]["bytes_by_part"].values())
