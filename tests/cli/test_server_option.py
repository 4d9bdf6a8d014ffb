"""`edgellm generate --server` and `edgellm chat --server`, as commands."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from edgellm.cli import cli
from support.fake_api import DONE, Answer, FakeAPI, delta, failing, fake_api, listing, saying, usage
from support.imports import HEAVY, loaded

DEFINITION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
def api() -> Iterator[FakeAPI]:
    with fake_api() as found:
        yield found


def command(api: FakeAPI, *arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--server", api.url], input=typed)


def generate(api: FakeAPI, *arguments: str) -> Result:
    return command(api, "generate", *arguments)


def test_the_text_goes_to_stdout_and_the_figures_to_stderr(api: FakeAPI) -> None:
    api.say(saying("Hel", "lo"))
    done = generate(api, "-p", "Hi", "--system", "Be brief", "--temp", "0.5")
    assert (done.exit_code, done.stdout) == (0, "Hello\n")
    assert "prompt 5 (0 cached) · generated 2 · TTFT" in done.stderr
    body = api.asked[-1].body
    assert body["messages"] == [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}]
    assert (body["model"], body["temperature"]) == ("m", 0.5) and "top_p" not in body


def test_json_has_its_documented_shape(api: FakeAPI) -> None:
    api.say(saying("Hel", "lo"))
    reply = json.loads(generate(api, "m", "-p", "Hi", "--json").stdout)
    assert (reply["text"], reply["finish_reason"], reply["chat"], reply["dropped_tokens"]) == ("Hello", "eog", True, 0)
    stats = reply["stats"]
    assert (stats["prompt_tokens"], stats["generated_tokens"], stats["estimated"]) == (5, 2, False)
    assert stats["ttft_s"] > 0 and stats["mbu"] is None and stats["queued_s"] is None and stats["devices"] == []


def test_jsonl_has_a_line_for_each_piece(api: FakeAPI) -> None:
    api.say(saying("Hel", "lo"))
    lines = [json.loads(line) for line in generate(api, "-p", "Hi", "--jsonl").stdout.splitlines()]
    assert [line["text"] for line in lines] == ["Hel", "lo", ""] and lines[-1]["finish_reason"] == "eog"
    assert lines[-1]["stats"]["generated_tokens"] == 2


def test_raw_text_is_continued(api: FakeAPI) -> None:
    api.say(Answer([b'data: {"choices": [{"text": " time", "finish_reason": "length"}]}\n\n', DONE]))
    done = generate(api, "--raw", "-p", "Once upon a", "-q")
    assert (done.exit_code, done.stdout) == (0, " time\n")
    assert (api.asked[-1].path, api.asked[-1].body["prompt"]) == ("/v1/completions", "Once upon a")


def test_calls_of_tools_are_printed(api: FakeAPI, tmp_path: Path) -> None:
    call = {"index": 0, "id": "x", "function": {"name": "f", "arguments": '{"a": 1}'}}
    api.say(Answer([delta(tool_calls=[call]), delta("tool_calls"), DONE]))
    (tmp_path / "tools.json").write_text(json.dumps([DEFINITION]))
    done = generate(api, "-p", "Hi", "--tools", str(tmp_path / "tools.json"), "-q")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"name": "f", "arguments": {"a": 1}})


def test_only_the_answer_of_a_form_goes_to_stdout(api: FakeAPI) -> None:
    api.say(Answer([delta(reasoning_content="hm"), delta(content="red"), delta("stop"), usage(5, 9), DONE]))
    done = generate(api, "-p", "Hi", "--choice", "red", "--choice", "blue", "-q")
    assert (done.exit_code, done.stdout) == (0, "red\n")
    api.say(saying("green"))
    done = generate(api, "-p", "Hi", "--choice", "red", "--choice", "blue", "-q")
    assert done.exit_code == 1 and "did not hold the reply to" in str(done.exception)


def test_a_failure_amid_a_reply_ends_the_line_of_its_text(api: FakeAPI) -> None:
    api.say(Answer([delta(content="so far")], cut=True))
    done = generate(api, "-p", "Hi")
    assert (done.exit_code, done.stdout) == (1, "so far\n") and "ended the connection" in str(done.exception)


def test_notes_say_what_cut_the_reply_off_and_what_the_figures_count(api: FakeAPI) -> None:
    api.say(Answer([delta(content="a"), delta("length"), DONE]))
    done = generate(api, "-p", "Hi")
    assert "the server's limit of tokens" in done.stderr and "count pieces of text" in done.stderr


def test_the_key_comes_from_the_environment_and_is_never_printed(api: FakeAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGELLM_SERVER_KEY", "sk-secret")
    api.say(failing(401, "Incorrect key sk-secret"))
    done = generate(api, "-p", "Hi")
    assert done.exit_code == 1 and "sk-secret" not in done.output + str(done.exception)
    assert api.asked[-1].headers["Authorization"] == "Bearer sk-secret"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--threads", "2"), "--threads is for a model on this machine"),
        (("--gpu-layers", "0"), "--gpu-layers is for"),
        (("--kv-type", "f16"), "--kv-type is for"),
        (("--template", "chatml"), "--template is for"),
        (("--overflow", "drop"), "--overflow is for"),
    ],
)
@pytest.mark.parametrize("name", [("generate", "-p", "x"), ("chat", "--plain")])
def test_options_of_a_model_on_this_machine(
    api: FakeAPI, name: tuple[str, ...], arguments: tuple[str, ...], words: str
) -> None:
    done = command(api, *name, *arguments)
    assert done.exit_code == 2 and words in done.output and not api.asked


def test_wrong_usage(api: FakeAPI) -> None:
    runner = CliRunner()
    assert "belongs to --server" in runner.invoke(cli, ["generate", "m", "-p", "x", "--server-key", "k"]).output
    assert "Missing argument 'MODEL'" in runner.invoke(cli, ["generate", "-p", "x"]).output
    done = runner.invoke(cli, ["generate", "-p", "x", "--server", "nowhere"])
    assert "is not the address of a server" in str(done.exception)
    assert "--logprobs is for" in generate(api, "-p", "x", "--json", "--logprobs", "2").output


def test_several_models_are_listed(api: FakeAPI) -> None:
    api.models = listing({"id": "a"}, {"id": "b"})
    done = generate(api, "-p", "x")
    assert done.exit_code == 1 and "a, b" in str(done.exception)


def test_the_plain_chat(api: FakeAPI) -> None:
    api.say(saying("Hello"), saying("Bye"))
    done = command(api, "chat", "--plain", typed="Hi\n/set temp 0.1\nBye\n/model\n")
    assert (done.exit_code, done.stdout) == (0, "Hello\nBye\n")
    assert f"m at {api.host} is ready" in done.stderr and "1 generated" in done.stderr
    assert api.asked[-2].body["temperature"] == 0.1


def test_neither_numpy_nor_a_kernel_is_loaded_for_a_reply_of_a_server(api: FakeAPI) -> None:
    api.say(saying("Hello"))
    arguments = ["edgellm", "generate", "-p", "Hi", "--server", api.url]
    modules = loaded(f"sys.argv = {arguments!r}; from edgellm.entry import main; main()")
    assert "edgellm.remote.reply" in modules
    assert not modules & (HEAVY - {"httpx2"})
