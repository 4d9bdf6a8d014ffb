"""A batch on a Ray cluster of two workers on this machine, one of which is killed; and addresses of no cluster."""

import json
import os
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from edgellm.batch.cluster import check_address
from edgellm.batch.figures import Figures
from edgellm.batch.run import run
from edgellm.errors import EdgeLLMError, OptionError
from support.batch_kills import Silent, settings_of

REQUESTS = 160
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")


def workers_of(program: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The processes in which Ray Data calls a worker."""
    found = []
    for process in psutil.Process(program.pid).children(recursive=True):
        try:
            if "MapWorker" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


@pytest.mark.slow
@needs_ray
@pytest.mark.skipif(os.name == "nt", reason="needs a Ray cluster on this machine")
def test_a_worker_that_is_killed_costs_no_line(tmp_path: Path) -> None:
    source, alone, clustered = (tmp_path / name for name in ("in.jsonl", "alone.jsonl", "clustered.jsonl"))
    bodies = [{"prompt": f"What is {i}?", "max_tokens": 60, "temperature": 2 * (i % 2)} for i in range(REQUESTS)]
    source.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    run(settings_of(source, alone, parallel=8), Figures(), Silent())

    options = ["--ray", "local", "--threads", "1", "--parallel", "4"]
    command = [sys.executable, "-m", "edgellm", "batch", "builtin", str(source), "-o", str(clustered), *options]
    journal, killed = settings_of(source, clustered).journal, 0
    with subprocess.Popen(command, stderr=subprocess.PIPE) as program:
        while program.poll() is None and not killed:
            has_answers = journal.exists() and journal.read_bytes().count(b"\n") > 1
            if has_answers and (workers := workers_of(program)):
                workers[0].kill()
                killed = workers[0].pid
            time.sleep(0.05)
        errors = program.communicate(timeout=120)[1].decode()
    assert program.returncode == 0, errors
    assert killed, errors
    assert f"clustered.jsonl: {REQUESTS} requests" in errors
    assert clustered.read_bytes() == alone.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone.jsonl", "clustered.jsonl", "in.jsonl"]


@needs_ray
def test_an_address_where_no_cluster_is_ends_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(EdgeLLMError, match=f"no Ray cluster answers at 127.0.0.1:{port} .*ray start --head"):
        check_address(f"127.0.0.1:{port}")


@needs_ray
@pytest.mark.parametrize("address", ["", "nonsense", "host:", ":1", "host:x", "ray://host:1"])
def test_what_is_no_address_is_wrong_usage(address: str) -> None:
    with pytest.raises(OptionError, match="option ray cannot be"):
        check_address(address)


def test_without_ray_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.batch.cluster.find_spec", lambda name: None)
    with pytest.raises(EdgeLLMError, match="--ray needs the package ray; install it with: "):
        check_address("local")
