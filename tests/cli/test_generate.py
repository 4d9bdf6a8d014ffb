"""`edgellm generate` as a program: tokens alone on stdout, everything else in one line on stderr."""

import json
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from edgellm import Model
from edgellm.cli.progress import show_warnings
from edgellm.errors import EdgeLLMWarning
from support.generate_command import EDGELLM, GREEDY, generate, only_line, path, text_in, text_of

__all__ = ["path", "text_of"]

STATS = ["prompt_tokens", "cached_tokens", "generated_tokens", "ttft_s", "prefill_tps", "decode_tps"]
STATS += ["itl_ms", "mbu", "devices", "guided", "queued_s", "estimated"]
STATS += ["drafted", "accepted", "tokens_per_step", "drafts"]


def test_stdout_has_the_tokens_alone(path: Path, text_of: Callable[[str], str]) -> None:
    expected = text_of("the time")  # first: it compiles what is not there yet, which the command would tell
    done = generate(path, "-p", "the time", *GREEDY)
    assert (done.returncode, done.stdout.decode()) == (0, f"{expected}\n")
    assert done.stderr.decode().startswith("prompt ")
    assert "generated 8 · TTFT " in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_a_full_context_is_a_note(path: Path) -> None:
    done = generate(path, "-p", "the time", "--ctx", 20, *GREEDY[:2], *GREEDY[4:])
    assert b"note: the context of 20 tokens is full; --overflow window lets a reply go on" in done.stderr
    done = generate(path, "-p", "the time", "--raw", "--ctx", 20, *GREEDY[:2], *GREEDY[4:])
    assert b"note: the context of 20 tokens is full\n" in done.stderr
    assert b"note" not in generate(path, "-p", "the time", *GREEDY).stderr


def test_figures_begin_on_a_new_line(path: Path) -> None:
    command = [*EDGELLM, "generate", str(path), "-p", "the time", *GREEDY]
    one_pipe: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=True, **one_pipe)
    assert done.stdout.rsplit(b"\n", 2)[1].startswith(b"prompt ")


def test_a_closed_stderr_is_no_error(path: Path, text_of: Callable[[str], str]) -> None:
    shell = shlex.join([*EDGELLM, "generate", str(path), "-p", "the time", *GREEDY]) + " 2>&-"
    done = subprocess.run(["sh", "-c", shell], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    assert (done.returncode, text_in(done)) == (0, text_of("the time"))


def test_json_is_one_object(
    path: Path, text_of: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))  # where no bandwidth was kept, so that no MBU is known
    done = generate(path, "-p", "the time", "--json", *GREEDY)
    reply = json.loads(done.stdout)
    assert done.stdout.count(b"\n") == 1
    assert list(reply) == ["text", "tokens", "finish_reason", "stats", "dropped_tokens", "chat"]
    assert (reply["text"], len(reply["tokens"]), reply["finish_reason"]) == (text_of("the time"), 8, "length")
    assert list(reply["stats"]) == STATS
    assert (reply["stats"]["generated_tokens"], reply["stats"]["mbu"]) == (8, None)
    assert set(reply["stats"]["itl_ms"]) == {"p50", "p95"}
    assert [set(device) for device in reply["stats"]["devices"]] == [{"name", "blocks", "bytes"}]


def test_jsonl_is_one_object_a_token(path: Path, text_of: Callable[[str], str]) -> None:
    done = generate(path, "-p", "the time", "--jsonl", *GREEDY)
    tokens = [json.loads(line) for line in done.stdout.splitlines()]
    assert [list(token) for token in tokens] == [["id", "text", "logprob", "finish_reason", "stats"]] * 8
    assert "".join(token["text"] for token in tokens) == text_of("the time")
    assert [token["finish_reason"] for token in tokens] == [None] * 7 + ["length"]
    assert [token["stats"]["generated_tokens"] for token in tokens] == list(range(1, 9))
    assert all(token["logprob"] < 0 for token in tokens)


def test_the_most_likely_tokens_are_printed_with_their_logprobs(path: Path) -> None:
    whole = json.loads(generate(path, "-p", "the time", "--json", "--logprobs", 2, *GREEDY).stdout)
    lines = generate(path, "-p", "the time", "--jsonl", "--logprobs", 2, *GREEDY).stdout.splitlines()
    tokens = [json.loads(line) for line in lines]
    assert [list(place) for place in whole["logprobs"]] == [["id", "text", "logprob", "top_logprobs"]] * 8
    assert [place["id"] for place in whole["logprobs"]] == whole["tokens"]
    for place, token in zip(whole["logprobs"], tokens, strict=True):
        assert all(place[name] == token[name] for name in ("id", "logprob", "top_logprobs"))
        assert [list(each) for each in place["top_logprobs"]] == [["id", "text", "logprob"]] * 2
        assert place["top_logprobs"][0]["logprob"] >= place["top_logprobs"][1]["logprob"]


def test_quiet_writes_only_the_text(path: Path, text_of: Callable[[str], str]) -> None:
    done = generate(path, "-p", "the time", "-q", "--ctx", 20, *GREEDY[:2], *GREEDY[4:])
    assert done.stdout and done.stderr == b""
    assert "no such file" in only_line(generate(path.with_name("none"), "-p", "x", "--quiet"), 1)


def test_quiet_hides_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, told in ((True, ""), (False, "edgellm: note: odd\n")):
        with show_warnings(quiet):
            warnings.warn("odd", EdgeLLMWarning, stacklevel=1)
        assert capsys.readouterr().err == told


def test_a_stop_string_and_a_seed(path: Path, text_of: Callable[[str], str]) -> None:
    text = text_of("the time")
    done = generate(path, "-p", "the time", "--json", "--stop", text[3:5], "--stop", "zzz", *GREEDY)
    assert json.loads(done.stdout)["text"] == text[: text.index(text[3:5])]
    hot = ["-p", "the", "--temp", "2", "-n", "16", "--top-k", "0"]
    one, two, other = (generate(path, *hot, "--seed", seed).stdout for seed in (7, 7, 8))
    assert one == two != other


def test_a_warm_generation_imports_nothing_heavy_that_it_does_not_need(path: Path) -> None:
    code = (
        "import sys\n"
        "from edgellm.cli import run\n"
        "code = run()\n"
        "heavy = {'numba', 'gguf', 'textual', 'llama_cpp', 'requests', 'jinja2'} & set(sys.modules)\n"
        "print(code, *sorted(heavy), file=sys.stderr)"
    )
    assert generate(path, "-p", "x", *GREEDY).returncode == 0
    command = [sys.executable, "-c", code, "generate", str(path), "--raw", "-p", "x", *GREEDY]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.stderr.decode().splitlines()[-1] == "0"


def test_the_best_reply_of_a_beam_search(path: Path) -> None:
    with Model.open(path, threads=1) as model:
        found = model.chat().send("the time", beams=3, max_tokens=8, logit_bias={2: -float("inf")})
    options = [*GREEDY[2:], "--beams", 3]
    done = generate(path, "-p", "the time", *options)
    assert (done.returncode, done.stdout.decode()) == (0, f"{found.text}\n")
    reply = json.loads(generate(path, "-p", "the time", "--json", *options).stdout)
    assert found.beams and reply["beams"] == [asdict(beam) for beam in found.beams]
    assert (reply["text"], reply["tokens"]) == (found.text, found.tokens)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--temp", "0.5"], "--temp above 0 samples"),
        (["--jsonl"], "--beams has no token before its end"),
        (["--draft", "auto"], "--beams takes no drafts: leave --draft out"),
        (["--regex", "a"], "--regex and --beams exclude each other"),
        (["--tools", "tools.json"], "--beams and --tools exclude each other"),
        (["--server", "http://127.0.0.1:1"], "--beams is for a model on this machine"),
    ],
)
def test_what_excludes_a_beam_search(tmp_path: Path, options: list[str], words: str) -> None:
    function = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    (tmp_path / "tools.json").write_text(json.dumps([{"type": "function", "function": function}]), encoding="utf-8")
    options = [str(tmp_path / each) if each == "tools.json" else each for each in options]
    done = generate(tmp_path / "absent.gguf", "-p", "x", "--beams", 2, *options)
    assert words in only_line(done, 2)
