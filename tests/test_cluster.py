"""Ray learns what processes of this machine learn; a worker that is lost costs time and nothing else."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

from samc.errors import ConfigError, DataError
from samc.experiments.cluster import RayCluster, places_on
from samc.experiments.jobs import make_job
from samc.experiments.local import LocalProcesses
from samc.experiments.perform import Listener, perform
from samc.experiments.record_store import RecordStore

BEGINNING = "testing before the first task"


def tiny(model, seed, **settings):
    given = {"model": model, "seed": seed, "dataset": "split-synthetic", "n_tasks": 2, "samples_per_task": 20}
    return make_job({**given, **settings})


TABLE = [tiny(model, seed) for model in ("finetune", "gem") for seed in (0, 1)]


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The table as processes of this machine learn it."""
    store = RecordStore(tmp_path_factory.mktemp("local"))
    assert perform(TABLE, store, LocalProcesses(2, "cpu", threads=1), Listener()) == {}
    return written(store, TABLE)


@pytest.fixture(scope="module")
def ray():
    return pytest.importorskip("ray", reason="Ray is an extra: pip install 'samc[ray]'")


@pytest.fixture(scope="module")
def address(ray):
    """Two machines with a core each, as far as Ray can tell; on ports that are free."""
    from ray.cluster_utils import Cluster as Machines

    with (
        tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as env,
    ):
        env.setenv("RAY_USAGE_STATS_ENABLED", "0")
        env.setenv("RAY_TMPDIR", folder)  # tmp_path is too long for a socket
        machines = Machines(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        machines.add_node(num_cpus=1)
        yield machines.address
        machines.shutdown()


def written(store, jobs):
    """The records as they were written, but for what no two runs share."""
    records = {}
    for job in jobs:
        records[job] = json.loads((store.place(job) / "record.json").read_text())
        assert records[job].pop("seconds")["total"] > 0
    return records


class Beginnings(Listener):
    """Notes every start of a job in a worker, and may do something about it."""

    def __init__(self, then=lambda job: None):
        self.jobs, self.then = [], then

    def progressed(self, job, fields):
        if fields.get("status") == BEGINNING:
            self.jobs.append(job)
            self.then(job)


def our_workers():
    """Processes that learn a job for this one, by the names that Ray gives them."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, _ in rows}

    def is_ours(pid):
        while pid and pid != os.getpid():
            pid = parents.get(pid, 0)
        return bool(pid)

    return [int(pid) for pid, _, args in rows if args.startswith("ray::serve") and is_ours(int(pid))]


@pytest.mark.slow
def test_two_machines_write_the_table_of_processes_and_a_job_that_cannot_be_learnt_ends_alone(
    address, local, tmp_path, capfd
):
    store, beginnings = RecordStore(tmp_path), Beginnings()
    wrong = tiny("gem", 0, dataset="npz:nowhere.npz", preset="none")
    failures = perform([wrong, *TABLE], store, RayCluster(None, "cpu", threads=1, address=address), beginnings)
    assert written(store, TABLE) == local
    assert list(failures) == [wrong]
    assert type(failures[wrong]) is DataError
    assert "nowhere.npz" in str(failures[wrong])
    assert sorted(beginnings.jobs, key=TABLE.index) == TABLE  # each once
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_killed_worker_changes_no_record(ray, local, tmp_path, capfd):
    """Killed as it begins to learn, so that it is surely in the midst of it; on a Ray of our own, gone afterwards."""
    store, jobs, killed, before = RecordStore(tmp_path), TABLE[2:], [], signal.getsignal(signal.SIGTERM)

    def kill(job):
        if not killed:
            killed.extend(our_workers())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    beginnings = Beginnings(kill)
    assert perform(jobs, store, RayCluster(2, "cpu", threads=1), beginnings) == {}
    assert killed
    assert len(beginnings.jobs) > len(jobs)
    assert written(store, jobs) == {job: local[job] for job in jobs}
    assert not ray.is_initialized()
    assert our_workers() == []
    assert signal.getsignal(signal.SIGTERM) is before
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_jobs_are_asked_for_as_there_is_room_and_an_interrupt_ends_the_connection(ray, address):
    asked_for = []

    def interrupt(job, fields):
        raise KeyboardInterrupt

    ahead = (asked_for.append(job) or job for job in TABLE)
    with pytest.raises(KeyboardInterrupt):
        next(RayCluster(1, "cpu", threads=1, address=address).run(ahead, interrupt))
    assert asked_for == TABLE[:1]
    assert not ray.is_initialized()


@pytest.mark.slow
def test_a_cluster_with_too_little_room_says_so(address):
    with pytest.raises(ConfigError, match="no machine of the cluster has 2 CPUS for a job"):
        next(RayCluster(None, "cpu", threads=2, address=address).run(TABLE, None))


@pytest.mark.slow
def test_an_address_where_nothing_listens(ray):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        silent = f"127.0.0.1:{reserved.getsockname()[1]}"
        for wrong in (silent, "127.0.0.1:none", "cluster"):
            with pytest.raises(ConfigError, match=f"no Ray cluster answers at {wrong} .*start one: ray start"):
                next(RayCluster(1, "cpu", address=wrong).run(TABLE, None))


@pytest.mark.parametrize(
    ("node", "share", "places"),
    [
        ({"CPU": 8.0}, {"num_cpus": 3.0}, 2),
        ({"CPU": 16.0, "GPU": 1.0}, {"num_cpus": 1.0, "num_gpus": 0.2}, 5),
        ({"CPU": 16.0, "GPU": 2.0}, {"num_cpus": 1.0, "num_gpus": 0.4}, 4),
        ({"CPU": 3.0, "GPU": 1.0}, {"num_cpus": 1.0, "num_gpus": 0.2}, 3),
        ({"CPU": 16.0, "GPU": 5.0}, {"num_cpus": 1.0, "num_gpus": 2.0}, 2),
        ({"CPU": 16.0}, {"num_cpus": 1.0, "num_gpus": 1.0}, 0),
        ({}, {"num_cpus": 1.0}, 0),
    ],
)
def test_places_on_a_machine(node, share, places):
    assert places_on(node, share) == places


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [0.0, -1.0, 1.5])
def test_a_part_of_a_gpu_is_a_part_of_one(ray, gpus):
    with pytest.raises(ConfigError, match="a part of one GPU"):
        RayCluster(1, "cuda", gpus=gpus)


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError) as told:
        RayCluster(1, "cpu")
    assert str(told.value) == "--executor ray needs Ray: pip install 'samc[ray]'"
