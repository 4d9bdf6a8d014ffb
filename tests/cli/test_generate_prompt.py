"""The prompt of `edgellm generate`: its parts, and the chat template."""

import json
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path

from support.generate_command import GREEDY, TINY, generate, only_line, path, text_in, text_of
from support.model_file import ModelFile

__all__ = ["path", "text_of"]


def test_parts_of_a_prompt_are_joined_in_order(path: Path, tmp_path: Path, text_of: Callable[[str], str]) -> None:
    (tmp_path / "a").write_text("was é")
    (tmp_path / "b").write_text(" in\n")
    done = generate(path, "-f", tmp_path / "a", "-p", "he ", "-f", tmp_path / "b", *GREEDY, stdin=b" on\r\n")
    assert text_in(done) == text_of("he was é in\n on")
    assert text_in(generate(path, *GREEDY, stdin=b"on")) == text_of("on")
    # The line end behind the last part is none of the prompt; those before it are, and so is one given with -p.
    assert text_in(generate(path, *GREEDY, stdin=b"on\n\n")) == text_of("on\n")
    assert text_in(generate(path, "-f", tmp_path / "b", *GREEDY)) == text_of(" in")
    assert text_in(generate(path, "-p", "on\n", *GREEDY)) == text_of("on\n")
    # stdin has a place of its own where a - stands for it, and comes once.
    there = generate(path, "-f", "-", "-f", tmp_path / "b", *GREEDY, stdin=b"on\n")
    assert text_in(there) == text_of("on\n in")


def test_a_byte_order_mark_is_no_part_of_the_prompt(path: Path, tmp_path: Path, text_of: Callable[[str], str]) -> None:
    (tmp_path / "a").write_bytes(BOM_UTF8 + b"was")
    (tmp_path / "t").write_bytes(BOM_UTF8 + b"{{ messages[0].content }}")
    done = generate(path, "--raw", "-f", tmp_path / "a", *GREEDY, stdin=BOM_UTF8 + " on\ufeff".encode())
    assert done.stdout.decode() == text_of("was on\ufeff") + "\n"  # behind the beginning it is a character as any other
    alone, marked = (tmp_path / "alone", tmp_path / "t")
    alone.write_bytes(marked.read_bytes().removeprefix(BOM_UTF8))
    one, other = (generate(path, "--chat", "--template", each, "-p", "on", *GREEDY) for each in (alone, marked))
    assert (one.returncode, one.stdout) == (0, other.stdout)


def test_chat_uses_the_template(path: Path, tmp_path: Path, text_of: Callable[[str], str]) -> None:
    done = generate(path, "-p", "time", "--chat", "--system", "the", "--template-arg", "x= ", *GREEDY)
    assert text_in(done) == text_of("the time ")
    (tmp_path / "t").write_text("{{ messages[0].content }} was{{ add_generation_prompt or '' }}")
    own = ["--template", tmp_path / "t", "--template-arg", "add_generation_prompt=false"]
    assert text_in(generate(path, "-p", "time", "--chat", *own, *GREEDY)) == text_of("time was")
    assert text_in(generate(path, "-p", "time", *own, *GREEDY)) == text_of("time was"), "--chat goes without saying"
    told = generate(path, "-p", "time", "--system", "", "--template-arg", "x= ", *GREEDY)
    assert text_in(told) == text_of(" time "), "an empty system prompt is one"
    (tmp_path / "s").write_text("the \r\n")
    told = generate(path, "-p", "time", "--system-file", tmp_path / "s", *GREEDY)
    assert text_in(told) == text_of("the time")
    told = generate(path, "-p", "time", "--system-file", "-", *GREEDY, stdin=b"the ")
    assert text_in(told) == text_of("the time"), "stdin is the system prompt, and no part of the message"


def test_a_template_is_used_unless_text_is_to_be_completed(
    model_file: ModelFile, text_of: Callable[[str], str]
) -> None:
    """The weights are those of the other model, so that its Python API gives the expected text."""
    assert text_of("<<the time>>") != text_of("the time")
    templated = model_file(**TINY, chat_template="{{ bos_token }}<<{{ messages[-1].content }}>>")
    for args, prompt, chat in (
        ([], "<<the time>>", True),
        (["--chat"], "<<the time>>", True),
        (["--raw"], "the time", False),
    ):
        done = generate(templated, *args, "--json", "-p", "the ", *GREEDY, stdin=b"time\n")
        assert (json.loads(done.stdout)["text"], json.loads(done.stdout)["chat"]) == (text_of(prompt), chat)
    plain = json.loads(generate(model_file(**TINY), "--json", "-p", "the time", *GREEDY).stdout)
    assert (plain["text"], plain["chat"]) == (text_of("the time"), False)


def test_a_prompt_with_template_tokens_is_a_note(path: Path) -> None:
    note = b"note: the prompt has </s>, which is plain text in a message; --raw --special reads it as a token"
    assert note in generate(path, "-p", "the</s>", *GREEDY).stderr
    for clear in (["--chat"], ["--raw"], ["--raw", "--special"], ["--quiet"]):
        assert b"note" not in generate(path, "-p", "the</s>", *clear, *GREEDY).stderr


def test_an_error_of_the_template_suggests_raw(model_file: ModelFile) -> None:
    for template in ("{% if %}", "{{ raise_exception('no') }}"):
        path = model_file(**TINY, chat_template=template)
        said = only_line(generate(path, "-p", "the"), 1)
        assert said.endswith("choose another as --template NAME|FILE, or complete text with --raw\n")
        assert generate(path, "-p", "the", "--raw", *GREEDY).returncode == 0
        assert "--raw" not in only_line(generate(path, "-p", "the", "--chat"), 1)


def test_a_chat_that_outgrows_the_context(path: Path) -> None:
    chat = ["--chat", "-p", "z" * 40, "--ctx", 60, *GREEDY[:2], *GREEDY[4:]]
    done = generate(path, *chat, "-n", 90, "--overflow", "window", "--json")
    reply = json.loads(done.stdout)
    assert (len(reply["tokens"]), reply["finish_reason"]) == (90, "length")
    assert 40 < reply["dropped_tokens"] < 40 + 90
    assert f"edgellm: note: {reply['dropped_tokens']} tokens did not fit the context of 60" in done.stderr.decode()
    done = generate(path, *chat, "--json")
    assert json.loads(done.stdout)["dropped_tokens"] == 0
    assert b"note: the context of 60 tokens is full" in done.stderr
    assert (
        "a larger context (--ctx) if the model allows one, or have older turns left out (--overflow drop or window)"
        in only_line(generate(path, *chat, "-p", "z" * 80), 1)
    )
