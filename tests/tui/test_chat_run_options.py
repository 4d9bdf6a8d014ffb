"""Options of the command line: they hold over stored settings for one run, and are not stored."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.chat_model import write_chat_model
from support.headless_chat import HeadlessFrontend
from tui.core.events import ModelFailed, ReplyEnded
from tui.core.prompt_messages import prompt_messages
from tui.core.run_options import RunOptions
from tui.core.store import Store


def test_options_hold_over_stored_settings_and_are_not_stored(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.db")
    store.preferences.save_settings("fake", {"temp": 0.5, "top_k": 5})
    frontend = HeadlessFrontend(
        tmp_path / "chats.db", run_options=RunOptions({"temp": 0.1, "ctx": 256, "special": True}, {"tools": "x"})
    )
    frontend.open()
    frontend.say("hello")
    assert frontend.backend.opened == [("fake", {"ctx": 256})]
    assert frontend.backend.model.options == [
        {"temp": 0.1, "top_k": 5, "special": True, "template_args": {"tools": "x"}}
    ]
    frontend.controller.model.set("top_k", "7")
    assert store.preferences.settings("fake") == {"temp": 0.5, "top_k": 7}
    frontend.controller.model.set("temp", "0.3")  # said in the chat, it is meant to stay
    assert store.preferences.settings("fake") == {"temp": 0.3, "top_k": 7}
    frontend.controller.model.set("ctx", "99999")
    frontend.until(ModelFailed)
    assert frontend.controller.model.value("ctx") == "256"
    assert store.preferences.settings("fake") == {"temp": 0.3, "top_k": 7}
    frontend.controller.close()
    store.close()


def test_a_template_is_for_the_model_that_it_was_given_with(tmp_path: Path) -> None:
    frontend = HeadlessFrontend(tmp_path / "chats.db", run_options=RunOptions({"template": "chatml", "threads": 1}))
    frontend.open()
    frontend.open("other")
    assert frontend.backend.opened == [("fake", {"template": "chatml", "threads": 1}), ("other", {"threads": 1})]
    frontend.controller.close()


@pytest.mark.parametrize(("draft", "of_other"), [("small", {}), ("auto", {"draft": "auto"}), ("off", {"draft": "off"})])
def test_a_draft_model_that_is_named_is_for_the_first_model(
    tmp_path: Path, draft: str, of_other: dict[str, str]
) -> None:
    frontend = HeadlessFrontend(tmp_path / "chats.db", run_options=RunOptions({"draft": draft}))
    frontend.open()
    frontend.open("other")
    assert frontend.backend.opened == [("fake", {"draft": draft}), ("other", of_other)]
    frontend.controller.close()


def test_the_first_message_follows_the_system_prompt(tmp_path: Path) -> None:
    frontend = HeadlessFrontend(
        tmp_path / "chats.db", run_options=RunOptions(system="Be brief.", message="hello"), first_model="fake"
    )
    frontend.controller.start()
    frontend.until(ReplyEnded)
    frontend.controller.start()  # once alone
    sent = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
    assert frontend.backend.model.asked == [sent]
    chat = frontend.controller.conversation.chat.id
    frontend.controller.chats.new()
    assert frontend.controller.conversation.chat.system == "Be brief."
    frontend.controller.close()
    again = HeadlessFrontend(tmp_path / "chats.db", run_options=RunOptions(system="Be long."))
    again.controller.resume(chat)
    assert prompt_messages(again.controller.conversation.chat)[0]["content"] == "Be long."
    assert again.controller.store.load(chat).system == "Be brief."
    again.controller.close()


def edgellm(home: Path, *arguments: object, typed: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "edgellm", "chat", "--plain", *map(str, arguments)],
        input=typed,
        env={**os.environ, "EDGELLM_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_the_command_takes_the_options_of_generate(tmp_path: Path) -> None:
    model = write_chat_model(tmp_path / "one.gguf")
    done = edgellm(
        tmp_path, model, "-p", "hello", "-n", 3, "--temp", 0, "--ctx", 64, "--kv-type", "f32", typed="/set\n"
    )
    assert (done.returncode, len(done.stdout.split())) == (0, 3)
    for line in ("max_tokens 3", "temp 0.0", "ctx 64", "kv_type f32"):
        assert line in " ".join(done.stderr.split())
    with_store = Store(tmp_path / "chats.db")
    assert with_store.preferences.settings(str(model)) == {}
    with_store.close()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(("--temp", "-1"), "--temp cannot be -1.0"), (("--engine", "x"), "--engine cannot be 'x'"),
     (("--overflow", "x"), "--overflow cannot be 'x'"), (("--template", "nope"), "--template: nope is no built-in")],
)  # fmt: skip
def test_a_wrong_option_is_reported_before_anything_is_opened(
    tmp_path: Path, arguments: tuple[str, str], expected: str
) -> None:
    done = edgellm(tmp_path, "builtin", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr
    assert not (tmp_path / "chats.db").exists()
