"""The server of one page: to this machine only, no file by any path, no other name, ends at Ctrl-C."""

import html
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

import samc
from limits import within
from page_makers import HOSTILE, save_run
from samc.cli.serving import ADDRESS, LEAST_SECONDS, Latest, PageServer
from samc.cli.view import going, state_of
from samc.errors import DataError
from samc.experiments.progress_log import FILE as PROGRESS
from samc.report.page.page import page_of

BEGUN = {"at": 1, "model": "er", "stream": HOSTILE, "classes": [[0], [1]], "names": [HOSTILE, "b"], "steps": [4, 4]}
TESTED = {"at": 2, "tasks_learnt": 0, "accuracies": [0.5, 0.5], "images": 0, "bytes": 0}


@pytest.fixture
def server():
    with PageServer(Latest(lambda: "a state", lambda state: f"<p>{state}</p>"), 0) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(server, path, hosts=(), method="GET"):
    """Status, headers and text of an answer; the path is sent as it is."""
    with closing(http.client.HTTPConnection(ADDRESS, server.server_port, timeout=20)) as connection:
        connection.putrequest(method, path, skip_host=True)
        for host in (f"{ADDRESS}:{server.server_port}",) if hosts == () else hosts:
            connection.putheader("Host", host)
        connection.endheaders()
        with connection.getresponse() as answer:
            return answer.status, dict(answer.getheaders()), answer.read().decode()


def test_it_serves_its_page_and_the_name_of_its_state(server):
    status, headers, text = ask(server, "/")
    assert (status, text) == (200, "<p>a state</p>")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert ask(server, "/state")[2] == "a state"
    assert ask(server, "/", [f"localhost:{server.server_port}"])[0] == 200


def test_it_listens_on_the_loopback_address_only(server):
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{}", "127.0.0.1", "127.0.0.1:1", "[::1]:{}", "", "127.0.0.1:{}x"]
)
def test_a_foreign_host_is_refused(server, host):
    for path in ("/", "/state", "/x"):
        status, _, text = ask(server, path, [host.format(server.server_port)])
        assert status == 403
        assert "a state" not in text


def test_two_hosts_or_none_are_refused(server):
    own = f"{ADDRESS}:{server.server_port}"
    assert ask(server, "/", [own, "evil.example"])[0] == 403
    assert ask(server, "/", [])[0] == 403


@pytest.mark.parametrize(
    "path",
    [
        "/record.json",
        "/../record.json",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/",
        "/state/",
        "/?x",
        "/state?../",
        "file:///etc/passwd",
        "http://evil.example/",
        "/\\..\\",
        "*",
    ],
)
def test_any_other_path_is_not_there(server, path):
    assert ask(server, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_it_only_answers(server, method):
    assert ask(server, "/", method=method)[0] == 501


def test_a_page_is_made_once_for_each_state_and_seldom_looked_for(monkeypatch):
    now, states, made = [0.0], ["a", "a", "b"], []
    monkeypatch.setattr("samc.cli.serving.time.monotonic", lambda: now[0])
    latest = Latest(lambda: states.pop(0), lambda state: made.append(state) or state)
    for expected in ("a", "a", "a", "a", "b"):
        assert latest.current_page() == expected
        now[0] += LEAST_SECONDS / 2
    assert made == ["a", "b"]
    assert states == []


def test_what_cannot_be_read_just_now_is_said_and_the_server_goes_on():
    def damaged():
        raise DataError("a file is damaged; remove it")

    with PageServer(Latest(damaged, str), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        assert ask(server, "/")[::2] == (503, "a file is damaged; remove it\n")
        assert ask(server, "/state")[0] == 503
        server.shutdown()
        thread.join()


def test_the_state_changes_with_every_line(tmp_path):
    states = [state_of(tmp_path)]
    path = tmp_path / PROGRESS
    for line in (BEGUN, TESTED):
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        states.append(state_of(tmp_path))
    save_run(tmp_path, memory=False)
    states.append(state_of(tmp_path))
    assert len(set(states)) == 4
    assert state_of(tmp_path) == states[-1]


def test_a_run_that_goes_on_is_shown_as_far_as_it_is_with_names_as_text(tmp_path):
    (tmp_path / PROGRESS).write_text("".join(json.dumps(line) + "\n" for line in (BEGUN, TESTED)))
    text = page_of([], going(tmp_path), live="now")
    assert HOSTILE not in text
    assert 'data-panel="progress"' in text
    assert "1 of 2" in text
    assert 'data-live="now"' in text
    assert "connect-src 'self'" in html.unescape(text)
    save_run(tmp_path, memory=False)
    assert going(tmp_path) == {}  # it has its record


def test_a_folder_that_is_not_there_is_one_line(command):
    code, _, err = command("view", "nowhere")
    assert code == 2
    assert err == "samc: nowhere is not there; give the folder of a run, or the --out of one that has just been begun\n"


def test_a_port_in_use_is_one_line(command, tmp_path):
    with socket.create_server((ADDRESS, 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = command("view", tmp_path, "--port", port)
    assert code == 2
    assert err == f"samc: cannot serve on port {port}: Address already in use; choose another --port\n"


@pytest.mark.slow
def test_ctrl_c_ends_it(tmp_path):
    save_run(tmp_path, memory=False)
    environment = {**os.environ, "PYTHONPATH": str(Path(samc.__file__).parents[1])}
    command = [sys.executable, "-m", "samc", "view", str(tmp_path), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        said = process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=within(60))
    assert said.startswith("page: http://127.0.0.1:")
    assert (process.returncode, out, err) == (0, "", "")
