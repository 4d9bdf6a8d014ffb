"""The package in Python: its names, the types of its options, the reprs of its objects."""

import types
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import converters
import edgellm
import kquants
import tui
from edgellm import Model, Tokenizer
from edgellm.arguments import ChatArguments, GenerationArguments, LoadArguments, ReplyArguments
from edgellm.options import ChatOptions, GenerationOptions, LoadOptions
from support.model_file import ModelFile

TINY: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}


@pytest.fixture(scope="module")
def path(model_file: ModelFile) -> Path:
    return model_file(**TINY, chat_template="{% for m in messages %}{{ m.content }}{% endfor %}")


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[Model]:
    with Model.open(path, threads=1) as model:
        yield model


def test_public_names_are_listed_before_they_are_loaded() -> None:
    assert set(edgellm.__all__) <= set(dir(edgellm))
    assert all(getattr(edgellm, name) is not None for name in edgellm.__all__)
    assert edgellm.convert is converters.convert
    with pytest.raises(AttributeError, match="no attribute 'conver'"):
        edgellm.conver  # noqa: B018


@pytest.mark.parametrize("package", [edgellm, kquants, tui, converters])
def test_the_package_has_a_type_marker(package: types.ModuleType) -> None:
    assert package.__file__
    assert Path(package.__file__).with_name("py.typed").read_bytes() == b""


@pytest.mark.parametrize(
    ("arguments", "options"),
    [(LoadArguments, LoadOptions), (GenerationArguments, GenerationOptions), (ReplyArguments, ChatOptions)],
)
def test_the_types_of_arguments_are_those_of_the_options(arguments: Any, options: Any) -> None:
    """The types may be narrower; each may be None, which means not given."""
    given, own = get_type_hints(arguments), {field.name: field for field in fields(options)}
    added = (
        {"template_args", "tools", "tool_choice", "parallel_tool_calls", *GenerationArguments.__annotations__}
        if arguments is ReplyArguments
        else set()
    )
    assert set(given) - added == set(own)
    hints = get_type_hints(options)
    for name in own:
        allowed = set(get_args(given[name]))
        assert type(None) in allowed
        if not any(get_args(kind) for kind in allowed):  # neither a list nor some values alone
            assert allowed == {*(get_args(hints[name]) or [hints[name]]), type(None)}, name


def test_the_literal_types_of_arguments_are_the_choices_of_the_options() -> None:
    for arguments, options in ((LoadArguments, LoadOptions), (ChatArguments, ChatOptions)):
        hints = get_type_hints(arguments)
        for name in options.names():
            parts = (part for part in get_args(hints[name]) if get_origin(part) is Literal)
            literals = tuple(value for part in parts for value in get_args(part))
            assert literals == options.words(name), name


def test_reprs_of_objects(model: Model, path: Path) -> None:
    chat = model.chat()
    chat.send("the", max_tokens=1)
    running = model.stream("the", max_tokens=2, logit_bias={2: -float("inf")})
    next(running)
    assert repr(model) == f"<edgellm.Model {path}, context 512>"
    assert repr(model.file) == f"<GGUFFile {path}, tensors: {len(model.file.tensors)}>"
    assert repr(chat) == f"<edgellm.Chat with {path}, messages: 2>"
    assert repr(running) == "<edgellm.Generation running, tokens: 1>"
    assert repr(running.completion()).startswith("Completion(text=")
    assert repr(running) == "<edgellm.Generation length, tokens: 2>"
    assert repr(Tokenizer.open(path)) == "<edgellm.Tokenizer SentencePiece, tokens: 320>"


def test_a_closed_model_says_so(path: Path) -> None:
    with Model.open(path, threads=1) as model:
        pass
    assert repr(model) == f"<edgellm.Model {path}, closed>"
