"""NVIDIA's service that lets processes share a GPU: started only where it is installed and works, and ended again."""

import os
import subprocess

import pytest

from samc.experiments import sharing
from samc.experiments.sharing import LOG, PIPE, shared_gpu

SERVICE = """#!/bin/sh
if [ "$1" = "-d" ]; then echo "started $CUDA_MPS_PIPE_DIRECTORY" >> {log}; exit {code}; fi
read words; echo "$words $CUDA_MPS_PIPE_DIRECTORY" >> {log}
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with such a service, which writes down how it is called; `code` is how its start ends."""
    monkeypatch.delenv(PIPE, raising=False)
    monkeypatch.delenv(LOG, raising=False)
    monkeypatch.setattr(sharing, "DEFAULT", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def install(code=0, probe="raise SystemExit(0)"):
        service = tmp_path / sharing.CONTROL
        service.write_text(SERVICE.format(log=tmp_path / "log", code=code))
        service.chmod(0o755)
        monkeypatch.setattr(sharing, "PROBE", probe)
        return tmp_path

    return install


def calls(folder):
    return (folder / "log").read_text().split() if (folder / "log").exists() else []


def test_a_service_is_started_and_ended(machine):
    folder = machine()
    with shared_gpu():
        place = os.environ[PIPE]
        assert os.path.isdir(place)
        assert os.environ[LOG] == place
        assert calls(folder) == ["started", place]
    assert calls(folder) == ["started", place, "quit", place]
    assert PIPE not in os.environ
    assert not os.path.exists(place)


def test_it_ends_with_an_error_too(machine):
    folder = machine()
    with pytest.raises(KeyboardInterrupt), shared_gpu():
        raise KeyboardInterrupt
    assert calls(folder)[2] == "quit"
    assert PIPE not in os.environ


def test_it_ends_though_its_start_was_interrupted(machine, monkeypatch):
    folder, run = machine(), subprocess.run

    def interrupted(command, **options):
        done = run(command, **options)
        if command[-1] == "-d":
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(sharing.subprocess, "run", interrupted)
    with pytest.raises(KeyboardInterrupt), shared_gpu():
        pytest.fail("nothing is begun")
    assert calls(folder)[2] == "quit"
    assert PIPE not in os.environ


def test_one_that_lets_no_process_in_is_not_used(machine):
    folder = machine(probe="raise SystemExit(1)")
    with shared_gpu():
        assert PIPE not in os.environ
    assert calls(folder)[2] == "quit"


def test_one_that_does_not_start_is_not_used(machine):
    folder = machine(code=1)
    with shared_gpu():
        assert PIPE not in os.environ
    assert calls(folder)[2] == "quit"


def test_one_that_runs_already_is_left_alone(machine, monkeypatch):
    folder = machine()
    monkeypatch.setenv(PIPE, "/somewhere")
    with shared_gpu():
        assert os.environ[PIPE] == "/somewhere"
    assert calls(folder) == []


def test_without_it_nothing_happens(monkeypatch):
    monkeypatch.delenv(PIPE, raising=False)
    monkeypatch.setattr(sharing, "CONTROL", "no-such-service")
    with shared_gpu():
        assert PIPE not in os.environ
