"""Draft models that cannot be, and options of drafts: each is refused, and `auto` goes on without."""

from pathlib import Path
from typing import Any

import pytest

from edgellm import Model
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, OptionError, UnsupportedModelError
from support.model_file import ModelFile
from support.opened_drafts import SIZES, text_of


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"draft": "none.gguf"}, EdgeLLMError, "none.gguf"),
        ({"draft": ""}, OptionError, "option draft cannot be ''"),
        ({"draft": "off", "draft_max": 3}, OptionError, "option draft_max is about drafts"),
        ({"draft": "off", "draft_rule": "rejection"}, OptionError, "option draft_rule is about drafts"),
        ({"draft_max": 8}, OptionError, "option draft_max cannot be 8: give a whole number, from 1 to 7"),
        ({"draft_rule": "best"}, OptionError, "give same or rejection"),
    ],
)
def test_options_that_cannot_be(
    draft_files: tuple[Path, Path], options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as caught:
        Model.open(draft_files[0], **options)
    assert said in str(caught.value)


def test_a_larger_model_and_one_of_other_tokens_are_refused(
    draft_files: tuple[Path, Path], model_file: ModelFile
) -> None:
    with pytest.raises(UnsupportedModelError, match="too large for a draft model"):
        Model.open(draft_files[1], draft=str(draft_files[0]))
    with pytest.raises(UnsupportedModelError, match="writes text with other tokens"):
        Model.open(draft_files[0], draft=str(model_file(**{**SIZES, "layers": 1, "types": "F32", "tokenizer": "gpt2"})))


def test_llama_cpp_has_no_draft_model(draft_files: tuple[Path, Path]) -> None:
    with pytest.raises(EdgeLLMError, match=r"llama\.cpp has no draft model here; leave --draft out"):
        Model.open(draft_files[0], draft=str(draft_files[1]), engine="llama.cpp")
    for name, value in (("draft_max", 3), ("draft_rule", "rejection")):
        with pytest.raises(EdgeLLMError, match=rf"llama\.cpp drafts nothing here; leave option {name} out"):
            Model.open(draft_files[0], engine="llama.cpp", **{name: value})


def test_auto_without_any_draft_model_warns_and_goes_on(draft_files: tuple[Path, Path]) -> None:
    with pytest.warns(EdgeLLMWarning, match="no model on this machine can draft"):
        model = Model.open(draft_files[1], draft="auto")
    with model:
        assert len(text_of(model)) == 60
