"""`edgellm batch` as a command: its output, what it tells, and each wrong input in one line."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from edgellm.builtin import PATH as BUILTIN
from edgellm.cli import cli
from edgellm.system.file_lock import file_lock
from support.chat_model import write_chat_model
from support.served import TIMEOUT_S, served

CHAT = "/v1/chat/completions"
TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is GGUF?"}]
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"schema": SCHEMA}}
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"messages": TALK, "max_tokens": 12, "temperature": 0}),
    (CHAT, {"messages": TALK[1:], "max_tokens": 40, "seed": 3, "n": 2, "temperature": 2}),
    (CHAT, {"messages": TALK, "max_tokens": 4, "temperature": 0, "logprobs": True, "top_logprobs": 2}),
    (CHAT, {"messages": TALK, "response_format": FORMAT, "seed": 1}),
    ("/v1/completions", {"prompt": ["A GPU", [1, 2, 3]], "max_tokens": 8, "temperature": 0, "stop": ["."]}),
    ("/v1/responses", {"input": "What is a token?", "max_output_tokens": 8, "temperature": 0}),
    (CHAT, {"messages": TALK, "temperature": -1}),
    (CHAT, {"messages": [{"role": "user", "content": "long " * 3000}]}),
    ("/v1/completions", {}),
    ("/v1/responses", {"input": "Hi", "previous_response_id": "a"}),
]
"""Requests of each route, and four with an error."""

PREDICTIONS = "accepted_prediction_tokens", "rejected_prediction_tokens"
"""Tokens of drafts: an answer of a batch has 0, so that its bytes depend on nothing that was measured."""


def batch(*arguments: object, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, ["batch", *map(str, arguments)], input=stdin)


def line_of(index: int, url: str, body: dict[str, Any]) -> str:
    return json.dumps({"custom_id": f"r{index}", "method": "POST", "url": url, "body": {"model": "builtin", **body}})


def answers_in(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def choices_in(path: Path) -> list[Any]:
    return [answer["response"]["body"]["choices"] for answer in answers_in(path)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(line_of(index, *request) for index, request in enumerate(REQUESTS)) + "\n\n")
    return path


def without_marks(value: Any) -> Any:
    """An answer without identifiers, times, what was cached and drafts: those of a server and of a batch differ."""
    if isinstance(value, dict):
        marks = ("id", "created", "created_at", "completed_at", "cached_tokens", *PREDICTIONS)
        return {key: without_marks(item) for key, item in value.items() if key not in marks}
    return [without_marks(item) for item in value] if isinstance(value, list) else value


def test_answers_are_those_of_the_server(source: Path, tmp_path: Path) -> None:
    done = batch("builtin", source, "-o", tmp_path / "out.jsonl", "--threads", 1)
    assert done.exit_code == 1
    assert "10 requests, 4 with an error" in done.stderr
    answers = answers_in(tmp_path / "out.jsonl")
    assert [answer["custom_id"] for answer in answers] == [f"r{index}" for index in range(len(REQUESTS))]
    with served(BUILTIN) as server:
        for answer, (url, body) in zip(answers, REQUESTS, strict=True):
            expected = httpx.post(f"{server.url}{url}", json=body, timeout=TIMEOUT_S)
            assert answer["error"] is None
            assert answer["response"]["status_code"] == expected.status_code
            of_server = json.loads(expected.text.replace("--ctx of edgellm serve", "--ctx"))
            assert without_marks(answer["response"]["body"]) == without_marks(of_server)


def test_the_same_bytes_however_many_at_once_and_in_whatever_order(tmp_path: Path) -> None:
    bodies = [{"prompt": f"Number {i}", "max_tokens": 1 + 7 * i % 30, "temperature": 1.5} for i in range(24)]
    lines = [json.dumps({"custom_id": f"{i}", **body}) for i, body in enumerate(bodies)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    for parallel in (1, 3, 24):
        done = batch("builtin", tmp_path / "in.jsonl", "-o", tmp_path / f"{parallel}", "--parallel", parallel)
        assert done.exit_code == 0
    assert (tmp_path / "1").read_bytes() == (tmp_path / "3").read_bytes() == (tmp_path / "24").read_bytes()
    (tmp_path / "in.jsonl").write_text("\n".join(reversed(lines)))
    batch("builtin", tmp_path / "in.jsonl", "-o", tmp_path / "reversed")
    assert choices_in(tmp_path / "1") == choices_in(tmp_path / "reversed")[::-1]


def test_equal_requests_have_seeds_of_their_own(tmp_path: Path) -> None:
    lines = '{"prompt": "A", "max_tokens": 16, "temperature": 3}\n' * 4
    assert batch("builtin", "-", "-o", tmp_path / "out", stdin=lines).exit_code == 0
    answers = answers_in(tmp_path / "out")
    assert [answer["custom_id"] for answer in answers] == [f"line-{number}" for number in (1, 2, 3, 4)]
    assert len({choices[0]["text"] for choices in choices_in(tmp_path / "out")}) > 1
    assert len({answer["id"] for answer in answers}) == 4


def test_the_same_command_again_computes_nothing(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    batch("builtin", source, "-o", out)
    written = out.stat().st_mtime_ns
    again = batch("builtin", source, "-o", out)
    assert (again.exit_code, out.stat().st_mtime_ns) == (1, written)
    assert "has the answers to all 10 requests already (4 with an error)" in again.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_what_an_interrupted_restart_left_replaces_a_complete_output(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.jsonl"
    batch("builtin", source, "-o", out)
    written, content = out.stat().st_ino, out.read_bytes()

    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("edgellm.batch.run.write_output", interrupt)
        stopped = batch("builtin", source, "-o", out, "--restart")
    assert (stopped.exit_code, out.stat().st_ino) == (130, written)
    assert "the same command without --restart goes on" in stopped.stderr
    batch("builtin", source, "-o", out)
    assert (out.stat().st_ino != written, out.read_bytes()) == (True, content)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


@pytest.mark.parametrize("end", ["partial", "new", "lock"])
def test_an_input_with_the_name_of_a_file_beside_the_output_is_refused(tmp_path: Path, end: str) -> None:
    (tmp_path / f"out.{end}").write_text('{"prompt": "A"}\n')
    refused = batch("builtin", tmp_path / f"out.{end}", "-o", tmp_path / "out", "--restart")
    assert "is read by this command, and is beside the output" in str(refused.exception)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(f"out.{end}", '{"prompt": "A"}\n')]


def test_another_output_is_replaced_only_with_restart(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    for content in ("mine\n", "[" * 100_000, '{"id": "batch_req_1", "response": {"status_code": 200}}\n'):
        out.write_text(content)
        refused = batch("builtin", "-", "-o", out, stdin='{"prompt": "A"}')
        assert refused.exit_code == 1
        assert "exists, and is not the output of this input, model and options" in str(refused.exception)
        assert out.read_text() == content
    assert batch("builtin", "-", "-o", out, "--restart", stdin='{"prompt": "A"}').exit_code == 0
    assert answers_in(out)[0]["custom_id"] == "line-1"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "stdin: is empty"),
        ("\n \n", "stdin: is empty"),
        ('{"prompt": "A"}\n{"prompt": "A"', "stdin, line 2: it is not JSON"),
        (
            '{"prompt": "A", "custom_id": "a"}\n\n{"prompt": "B", "custom_id": "a"}',
            "line 3: has the custom_id 'a' of line 1",
        ),
        ('{"prompt": "A"}\n{"prompt": "B", "custom_id": "line-1"}', "line 2: has the custom_id 'line-1' of line 1"),
        ('{"prompt": "' + "A" * (33 << 20), "stdin, line 1: is longer than 32 MiB"),
    ],
)
def test_an_input_with_a_line_that_is_no_request_is_refused_whole(tmp_path: Path, content: str, problem: str) -> None:
    refused = batch("builtin", "-", "-o", tmp_path / "out", stdin=content)
    assert refused.exit_code == 1
    assert problem in str(refused.exception)
    assert list(tmp_path.iterdir()) == []


def test_files_that_cannot_be_used_are_refused(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cases: list[tuple[tuple[object, ...], str]] = [
        (("builtin", tmp_path / "none", "-o", out), "there is no such file"),
        (("builtin", tmp_path, "-o", out), "is no regular file"),
        (("builtin", source, "-o", source), "is read by this command"),
        (("builtin", source, "-o", tmp_path), "is a folder"),
        (("builtin", source, "-o", tmp_path / "none" / "out"), "there is no folder"),
        (("nomodel", source, "-o", out), "no model named nomodel"),
        ((source, source, "-o", out), "in.jsonl"),
        (("builtin", source, "-o", "-"), "cannot go to stdout"),
        (("builtin", source, "-o", "/dev/stdout"), "cannot go to stdout"),
        (("builtin", source, "-o", "/dev/null"), "is not a regular file"),
        (("builtin", source, "-o", tmp_path), "answers.jsonl"),
        (("builtin", source, "-o", out, "--parallel", 0), "parallel"),
    ]
    for arguments, problem in cases:
        refused = batch(*arguments)
        assert refused.exit_code != 0, arguments
        assert problem in f"{refused.exception} {refused.stderr}", arguments
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_a_second_run_for_the_same_output_is_refused(source: Path, tmp_path: Path) -> None:
    with file_lock(tmp_path / "out.lock", "busy"):
        refused = batch("builtin", source, "-o", tmp_path / "out")
    assert refused.exit_code == 1
    assert "another `edgellm batch` writes this output now" in str(refused.exception)


def test_a_journal_of_another_input_is_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out.partial").write_text('{"edgellm batch": 1, "input": "", "model": "", "options": ""}\n')
    refused = batch("builtin", source, "-o", tmp_path / "out")
    assert "has answers for another input and another model and another options" in str(refused.exception)
    assert batch("builtin", source, "-o", tmp_path / "out", "--restart").exit_code == 1  # four requests have an error
    assert len(answers_in(tmp_path / "out")) == len(REQUESTS)


def test_notes_tell_of_errors_and_of_another_model_before_the_first_answer(tmp_path: Path) -> None:
    lines = '{"model": "gpt-4o", "prompt": "A", "max_tokens": 1}\n{"prompt": "A", "top_p": 7}\n'
    done = batch("builtin", "-", "-o", tmp_path / "out", stdin=lines)
    assert "stdin, line 1 asks for the model gpt-4o; builtin answers all requests" in done.stderr
    assert "1 of 2 requests will get an error; the first is stdin, line 2: " in done.stderr
    assert [answer["response"]["status_code"] for answer in answers_in(tmp_path / "out")] == [200, 400]


def test_a_stream_is_refused(tmp_path: Path) -> None:
    batch("builtin", "-", "-o", tmp_path / "out", stdin='{"prompt": "A", "stream": true}')
    response = answers_in(tmp_path / "out")[0]["response"]
    assert (response["status_code"], response["body"]["error"]["param"]) == (400, "stream")


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    write_chat_model(tmp_path / "m.gguf")
    endless = '{"prompt": "A", "max_tokens": 8000}\n'
    (tmp_path / "in.jsonl").write_text('{"prompt": "A", "max_tokens": 1}\n' + endless * 8)
    command = ["batch", "m.gguf", "in.jsonl", "-o", "out", "--threads", "1"]
    with subprocess.Popen(
        [sys.executable, "-m", "edgellm", *command], stderr=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    ) as program:
        while program.poll() is None and not answered(tmp_path / "out.partial"):
            time.sleep(0.02)
        program.send_signal(signal.SIGINT)
        output, errors = program.communicate(timeout=TIMEOUT_S)
    assert (program.returncode, output) == (130, b"")
    assert b"interrupted; 1 of 9 requests are answered: the same command goes on" in errors.splitlines()[-1]
    assert answered(tmp_path / "out.partial") == 1


def answered(journal: Path) -> int:
    return max(0, journal.read_bytes().count(b"\n") - 1) if journal.exists() else 0
