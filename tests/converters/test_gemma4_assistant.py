"""Assistants of Gemma 4: their checkpoints become the files that llama.cpp's converter makes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converters import convert
from converters.architectures.layouts import layouts_of
from edgellm import EdgeLLMError, EdgeLLMWarning, Model
from edgellm.arch.architectures import gemma4
from support.archs import ArchFixture
from support.draft_pairs import counted
from support.drafts import AllDrafts
from support.gemma_assistants import IDS, tensors, write_assistant, write_assistant_checkpoint
from support.golden_cases import CONVERTED_HEADS, facts, without_tokenizer


@pytest.fixture
def target(shared: Path) -> Path:
    """The folder of the checkpoint of the target."""
    return ArchFixture.of(shared, "gemma4_e2b").checkpoint


@pytest.fixture
def target_file(shared: Path) -> Path:
    return ArchFixture.of(shared, "gemma4_e2b").gguf


@pytest.mark.parametrize(
    ("is_file", "name"),
    [
        (False, "Gemma4AssistantForCausalLM"),
        (True, "Gemma4AssistantForCausalLM"),
        (True, "Gemma4UnifiedAssistantForCausalLM"),
    ],
)
def test_equals_llama_cpp(is_file: bool, name: str, target: Path, target_file: Path, tmp_path: Path) -> None:
    checkpoint = write_assistant_checkpoint(tmp_path / "checkpoint", {"architectures": [name]})
    out = tmp_path / "out.gguf"
    convert(checkpoint, out, "Q8_0", target=target_file if is_file else target)
    golden = json.loads((CONVERTED_HEADS / "assistant.json").read_text(encoding="utf-8"))
    made = json.loads(json.dumps(facts(out)))
    own = without_tokenizer(made)
    assert list(own["metadata"].items()) == list(golden["metadata"].items())
    assert list(own["tensors"].items()) == list(golden["tensors"].items())
    given = facts(target_file)["metadata"]
    assert {key: each for key, each in made["metadata"].items() if key not in own["metadata"]} == {
        key: each for key, each in given.items() if key.startswith("tokenizer.")
    }


def test_the_file_drafts_for_the_target(target_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)
    out = tmp_path / "out.gguf"
    convert(
        write_assistant_checkpoint(tmp_path / "checkpoint"), out, "F16", target=target_file, tensor_types=[".*=F32"]
    )
    assert facts(out)["tensors"] == facts(write_assistant(tmp_path / "same.gguf"))["tensors"]
    with Model.open(target_file, draft=str(out), ctx=128) as model:
        assert model.drafts_with == str(out)
        with counted(model.engine.draft_head) as passes:
            found = model.generate(IDS[:9], temp=0, max_tokens=30)
        assert len(passes) > 20
    with Model.open(target_file, draft="off", ctx=128) as model:
        assert model.generate(IDS[:9], temp=0, max_tokens=30).text == found.text


def test_tensors_of_a_whole_model_have_its_prefix() -> None:
    """Only the projections of an assistant lie beside `model`."""
    layouts = {each.prefix: each for each in layouts_of(gemma4.FACTS) if each.name == "Hugging Face"}
    name = "per_layer_model_projection.weight"
    assert layouts["model."].place(f"model.{name}") == layouts[""].place(name) is not None
    assert layouts["model."].place(name) is None


def test_what_the_file_does_not_need_is_left_out(target: Path, tmp_path: Path) -> None:
    """Clusters of tokens, by which `use_ordered_embeddings` skips some logits, and the output matrix, which is tied."""
    more: dict[str, Any] = {
        "masked_embedding.centroids.weight": np.zeros((8, 32), np.float32),
        "masked_embedding.token_ordering": np.arange(320),
        "lm_head.weight": tensors()["token_embd.weight"],
    }
    checkpoint = write_assistant_checkpoint(tmp_path / "checkpoint", {"use_ordered_embeddings": True}, **more)
    with pytest.warns(EdgeLLMWarning, match=r"2 tensors, such as masked_embedding.*clusters of tokens, not needed"):
        convert(checkpoint, tmp_path / "out.gguf", "Q8_0", target=target)
    golden = json.loads((CONVERTED_HEADS / "assistant.json").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(facts(tmp_path / "out.gguf")))["tensors"] == golden["tensors"]


_Q_NORM = "model.layers.2.self_attn.q_norm.weight"
FLAWS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "a wider target": ({"backbone_hidden_size": 96}, {}, {}, "for a model of 96 values a token, and the target has 64"),
    "tokens of another model": ({}, {"vocab_size": 319}, {}, "for a model of 319 tokens, and the target has 320"),
    "another window": ({}, {"sliding_window": 17}, {}, "a window of 17, which this model does not have; choose a head"),
    "other heads": ({}, {"num_key_value_heads": 4}, {}, "4 KV heads of 16 values and a window of 16"),
    "keys of its own": ({}, {"num_kv_shared_layers": 3}, {}, "1 of 4 layers have keys and values of their own"),
    "no count of layers that share": (
        {},
        {"num_kv_shared_layers": None},
        {},
        "4 of 4 layers have keys and values of their own",
    ),
    "more than all": ({}, {"num_kv_shared_layers": 5}, {}, "num_kv_shared_layers is 5, not"),
    "experts": ({}, {"enable_moe_block": True}, {}, "with experts or per-layer embeddings are not supported"),
    "per-layer embeddings": ({}, {"hidden_size_per_layer_input": 8}, {}, "per-layer embeddings are not supported"),
    "another activation": ({}, {"hidden_activation": "silu"}, {}, "hidden_activation silu is not supported"),
    "tokens of later text": ({}, {"use_bidirectional_attention": "all"}, {}, "tokens that see the ones after them"),
    "no width of the target": ({"backbone_hidden_size": None}, {}, {}, "backbone_hidden_size"),
    "a text as a width": ({"backbone_hidden_size": "64"}, {}, {}, "backbone_hidden_size is '64', not a whole number"),
    "no projection": ({}, {}, {"pre_projection.weight": None}, "no tensor for nextn.pre_projection.weight"),
    "no norm": ({}, {}, {_Q_NORM: None}, "no tensor for blk.2.attn_q_norm.weight"),
    "another shape": ({}, {}, {_Q_NORM: np.ones(32, np.float32)}, "has shape [32], not [16]"),
    "an unknown tensor": ({}, {}, {"model.centroid.weight": np.ones(4, np.float32)}, "has no place in this gemma4-ass"),
    "a projection in the model": (
        {},
        {},
        {"model.pre_projection.weight": tensors()["nextn.pre_projection.weight"]},
        "tensor model.pre_projection.weight has no place in this gemma4-assistant",
    ),
    "an output matrix": ({"tie_word_embeddings": False}, {"tie_word_embeddings": False}, {}, "no tensor for output.we"),
}
"""Keys of config.json and of its text_config, tensors, and a part of the refusal."""


@pytest.mark.parametrize("flaw", FLAWS)
def test_refusals(flaw: str, target: Path, tmp_path: Path) -> None:
    config, text, changed, reason = FLAWS[flaw]
    checkpoint = write_assistant_checkpoint(tmp_path / "checkpoint", config, text, **changed)
    _refused(checkpoint, tmp_path, reason, target=target)


def test_the_target_must_be_given_and_fit(target: Path, shared: Path, tmp_path: Path) -> None:
    checkpoint = write_assistant_checkpoint(tmp_path / "checkpoint")
    _refused(
        checkpoint, tmp_path, "is an assistant of Gemma 4, which drafts for another model: name that with --target"
    )
    other = ArchFixture.of(shared, "qwen3_5").gguf
    _refused(checkpoint, tmp_path, "this model has layers of another kind; choose a head", target=other)
    _refused(checkpoint, tmp_path, "is a draft head; leave it out", target=target, gptq=tmp_path / "text")


def _refused(checkpoint: Path, out: Path, reason: str, **options: Any) -> None:
    with pytest.raises(EdgeLLMError) as error:
        convert(checkpoint, out / "out.gguf", "F16", **options)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(out.glob("*.gguf*"))
