"""`edgellm serve` as a program: where it listens, how it stops, and what it refuses before a model is opened."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from edgellm import EdgeLLMError
from edgellm.cli import cli
from edgellm.remote.address import server_address
from edgellm.server.listen import listening
from edgellm.server.origins import is_origin
from edgellm.server.settings import ServeSettings
from support.chat_model import write_chat_model

ENDLESS = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
TIMEOUT_S = 120


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_model(tmp_path_factory.mktemp("served") / "m.gguf")


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The program, and its address."""
    command = [sys.executable, "-m", "edgellm", "serve", "--port", "0", "--threads", "1", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stderr
        try:
            line = program.stderr.readline()
            found = re.fullmatch(r"edgellm: serving at (http://127\.0\.0\.1:\d+)\n", line)
            assert found, line + program.stderr.read()
            yield program, found[1]
        finally:
            program.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it(path: Path, number: signal.Signals) -> None:
    with running(str(path)) as (program, url):
        assert httpx.get(f"{url}/v1/models").json()["data"][0]["id"] == "m"
        program.send_signal(number)
        output, errors = program.communicate(timeout=TIMEOUT_S)
        assert (program.returncode, output) == (0, "")
        assert "Traceback" not in errors and "GET /v1/models 200" in errors


def test_a_running_reply_may_end_and_a_second_signal_ends_it(path: Path) -> None:
    with running(str(path)) as (program, url):
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=ENDLESS, timeout=TIMEOUT_S) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("data: ")
            program.send_signal(signal.SIGINT)
            for _ in range(20):  # it goes on
                next(lines)
            assert program.poll() is None
            program.send_signal(signal.SIGINT)
            errors = program.communicate(timeout=TIMEOUT_S)[1]
        assert program.returncode == 130 and "Traceback" not in errors


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a pipe can be set on Linux alone")
def test_a_log_that_nobody_reads_stops_no_answer(path: Path) -> None:
    import fcntl  # there is none on Windows

    with running(str(path)) as (program, url):
        assert program.stderr
        fcntl.fcntl(program.stderr, fcntl.F_SETPIPE_SZ, 4096)  # type: ignore[attr-defined]
        with httpx.Client(base_url=url) as client:  # whose lines take more than the pipe holds
            assert {client.get("/v1/models").status_code for _ in range(200)} == {200}
        program.send_signal(signal.SIGTERM)
        assert program.wait(TIMEOUT_S) == 0


def serve(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["serve", *arguments])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--host", "0.0.0.0"), "--api-key"),
        (("--port", "70000"), "from 0 to 65535"),
        (("--parallel", "0"), "parallel"),
        (("--keep-alive", "soon"), "-1 for ever"),
        (("--api-key", "é"), "ASCII"),
        (("--api-key", ""), "option api_key is empty"),
        (("--unix", "s", "--port", "8080"), "--unix takes the place of --port: give one of them"),
        (("--unix", "s", "--host", "127.0.0.1"), "--unix takes the place of --host: give one of them"),
        (("--allow-origin", "foo"), "option allow_origin cannot be 'foo'"),
        (("--allow-origin", "https://example.org/page"), "without a path"),
        (("--allow-origin", "https://Example.org"), "as browsers name it"),
        (("--allow-origin", "https://example.org:443"), "as browsers name it"),
        (("--ctx", "0.5"), "--ctx"),
        (("--kv-memory", "-1"), "kv_memory"),
        (("--draft", "d"), "--draft auto for all"),
        (("--draft", "d", "one", "two"), "--draft auto for all"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], words: str) -> None:
    found = serve(*arguments)
    assert found.exit_code and words in str(found.exception) + found.output


@pytest.mark.parametrize(
    "origin", ["https://example.org", "http://[::1]:3000", "chrome-extension://abc", "null", "http://localhost:443"]
)
def test_what_browsers_send_is_an_origin(origin: str) -> None:
    assert is_origin(origin)


def test_a_port_in_use(path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        found = serve("--port", str(port), str(path))
    assert found.exit_code == 1 and str(found.exception) == f"port {port} is in use; choose another --port"


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs sockets of Unix")
def test_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address is absolute, and that of a client; one with a server is not taken over, one without is."""
    monkeypatch.chdir(tmp_path)
    settings = ServeSettings(unix="s.sock")
    with listening(settings) as (_, address):
        assert address == f"unix:{tmp_path}/s.sock"
        assert server_address(address) == server_address("unix:s.sock")
        with (
            pytest.raises(EdgeLLMError, match=r"^--unix s\.sock: a server listens there; stop it"),
            listening(settings),
        ):
            pytest.fail("it was taken over")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind("s.sock")
    with listening(settings):
        pass
    assert not Path("s.sock").exists()


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    found = serve("--port", "0", str(tmp_path / "none.gguf"))
    assert found.exit_code == 1 and "does not exist" in str(found.exception)
