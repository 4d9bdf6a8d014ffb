"""The built-in model: how it is made, what it knows, and that its name always means it."""

import json
import runpy
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from converters import convert
from edgellm import Model, builtin
from edgellm.cli.list import command as list_command
from edgellm.cli.rm import command as rm_command
from edgellm.models import find_models, resolve
from edgellm.models.stores import StoredModel
from support import ROOT
from support.local_models import Machine, machine, model
from support.oracle import llama_cpp_logits

__all__ = ["machine"]

RECIPE = ROOT / "models/builtin"
CHECKPOINT = RECIPE / "checkpoint"
QUESTION = "How do I convert a model?"


@pytest.fixture
def built_in(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine that has the built-in model and no other."""
    stored = StoredModel(["builtin", "edgellm/builtin"], "built-in", builtin.PATH)
    monkeypatch.setattr("edgellm.models.stores._built_in", lambda: [stored])
    return machine


def generate(*args: str) -> Any:
    command = [sys.executable, "-m", "edgellm", "generate", "builtin", "--json", "--temp", "0", *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_convert_makes_it_from_the_checkpoint(tmp_path: Path) -> None:
    convert(CHECKPOINT, tmp_path / "made.gguf", "Q8_0")
    made = (tmp_path / "made.gguf").read_bytes()
    assert builtin.PATH.read_bytes() == made
    assert len(made) < 6_000_000


@pytest.mark.parametrize(("questions", "count", "least"), [("held_out", 60, 54), ("first_messages", 66, 44)])
def test_it_answers_questions_in_new_words(questions: str, count: int, least: int) -> None:
    answers = runpy.run_path(str(RECIPE / "check.py"))["answers"](builtin.PATH, questions)
    assert len({answer.question for answer in answers}) == count
    wrong = [answer for answer in answers if not answer.right]
    assert count - len(wrong) >= least, wrong


def test_it_knows_greetings_with_or_without_a_capital_and_a_mark() -> None:
    greetings = {"Hello!": ["hi", "hello", "hello there", "hey", "yo", "good morning"]}
    greetings |= {"You are welcome!": ["thanks", "thank you"], "Goodbye!": ["bye", "goodbye"]}
    with Model.open(builtin.PATH) as opened:
        for answer, words in greetings.items():
            for word, mark in product(words, ["", "!", "."]):
                for typed in (word, word.capitalize()):
                    said = opened.chat(temp=0).send(typed + mark).text
                    assert said.startswith(answer), f"{typed + mark}: {said}"


@pytest.mark.parametrize("args", [(), ("--chat", "--system", "Be brief."), ("--raw",)])
def test_it_answers_a_message_and_a_raw_prompt(args: tuple[str, ...]) -> None:
    reply = generate("-p", QUESTION, *args)
    assert reply["text"].strip().startswith("Run `edgellm convert")
    assert reply["finish_reason"] == "eog"


def test_every_turn_of_a_conversation_is_answered() -> None:
    asked = {"hello": "Hello!", "What is TTFT?": "first token", "thanks": "welcome", "Capital of Italy?": "tiny model"}
    with Model.open(builtin.PATH) as opened:
        chat = opened.chat(temp=0)
        for question, phrase in asked.items():
            assert phrase in chat.send(question).text


def test_logits_are_those_of_llama_cpp(tmp_path: Path) -> None:
    convert(CHECKPOINT, tmp_path / "f16.gguf", "F16")
    with Model.open(tmp_path / "f16.gguf") as opened:
        ids = opened.tokenizer.encode(QUESTION)
        ours = opened.logits(ids)
    theirs = llama_cpp_logits(tmp_path / "f16.gguf", ids)
    assert np.linalg.norm(ours - theirs) < 0.01 * np.linalg.norm(theirs)


def test_logits_are_those_of_transformers(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs torch, which only the recipe uses")
    from transformers import AutoModelForCausalLM

    convert(CHECKPOINT, tmp_path / "f16.gguf", "F16")
    with Model.open(tmp_path / "f16.gguf", kv_type="f32") as opened:
        ids = opened.tokenizer.encode(QUESTION)
        ours = opened.logits(ids)
    with torch.inference_mode():
        network = AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32)
        theirs = network(torch.tensor([ids])).logits[0].numpy()
    assert np.linalg.norm(ours - theirs) < 0.01 * np.linalg.norm(theirs)


def test_list_shows_it_and_where_to_get_more(built_in: Machine) -> None:
    shown = CliRunner().invoke(list_command, catch_exceptions=False)
    assert shown.stdout.splitlines()[1].startswith("builtin ")
    assert "Q8_0" in shown.stdout
    assert "`edgellm pull`" in shown.stderr


def test_its_name_is_never_another_file(built_in: Machine) -> None:
    other = built_in.write("builtin", model(1))
    kept = built_in.write("models/builtin.gguf", model(2))
    assert resolve("builtin") == builtin.PATH
    assert resolve("./builtin").absolute() == other
    assert {found.name: found.path for found in find_models()} == {
        str(Path("models/builtin.gguf")): str(kept),
        "edgellm/builtin": str(builtin.PATH),
    }
    assert resolve("edgellm/builtin") == builtin.PATH


def test_rm_leaves_it_where_it_is(built_in: Machine) -> None:
    refused = CliRunner().invoke(rm_command, ["builtin", "--yes"])
    assert refused.exit_code != 0
    assert "is part of edgellm" in str(refused.exception)
    assert builtin.PATH.exists()
