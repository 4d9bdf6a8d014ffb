"""What we make of the checkpoints in shared/archs equals what llama.cpp's own converter made of them."""

import warnings
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from converters.architectures import describe
from converters.checkpoint import Checkpoint
from converters.tensors import Metadata, Source
from converters.vocabulary import vocabulary
from edgellm.errors import EdgeLLMWarning, UnsupportedModelError
from support.archs import ADDED_KEYS, DECODERS, ArchFixture

NAMED_BY_FAMILY = {"exaone4": ("str", "exaone4")}
"""tokenizer.ggml.pre where we name it by the family. The one tokenizer of all fixtures was named gpt-2 for them."""

KINDS = {"UINT32": "u32", "INT32": "i32", "FLOAT32": "f32", "BOOL": "bool", "STRING": "str"}


def theirs(reader: gguf.GGUFReader) -> dict[str, tuple[str, Any]]:
    """Kind and value of each key of llama.cpp's file, in order."""
    fields = [f for f in reader.fields.values() if not f.name.startswith("GGUF.")]
    return {f.name: ("/".join(KINDS.get(t.name, t.name) for t in f.types), f.contents()) for f in fields}


def ours(metadata: Metadata) -> dict[str, tuple[str, Any]]:
    """The same of our metadata, as a file holds it: numbers are float32."""
    found = {}
    for key, (kind, value) in metadata.items():
        held = np.asarray(value, np.float32).tolist() if kind == "f32" else value
        found[key] = (f"ARRAY/{kind}" if isinstance(value, list) else kind, held)
    return found


WITHOUT_PREDICTION = ("deepseek_v3",)
"""Checkpoints whose last layer, for multi-token prediction, llama.cpp's converter leaves out."""


def without_prediction(
    made: dict[str, tuple[str, Any]], sources: list[Source], wanted: dict[str, tuple[str, Any]]
) -> tuple[dict[str, tuple[str, Any]], list[Source]]:
    """The metadata and the tensors without the last layer, with the label of the size that `wanted` has."""
    kept = {key: value for key, value in made.items() if not key.endswith(".nextn_predict_layers")}
    (key,) = (key for key in made if key.endswith(".block_count"))
    kind, blocks = made[key]
    kept |= {key: (kind, blocks - 1), "general.size_label": wanted["general.size_label"]}
    return kept, [source for source in sources if not source.name.startswith(f"blk.{blocks - 1}.")]


@pytest.mark.parametrize("name", [*DECODERS, "gpt_oss_mxfp4"])
def test_equals_llama_cpp(shared: Path, name: str) -> None:
    fixture = ArchFixture.of(shared, name)
    if not fixture.gguf.exists():
        pytest.skip(f"needs archs/{name} in the shared data folder")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EdgeLLMWarning)  # of a vision tower
        checkpoint = Checkpoint.open(fixture.checkpoint)
        metadata, sources = describe(checkpoint)
        rows = next(source.row_count for source in sources if source.name == "token_embd.weight")
        tokenizer = vocabulary(checkpoint, rows)
    reader = gguf.GGUFReader(fixture.gguf)
    wanted = theirs(reader)
    wanted["tokenizer.ggml.pre"] = NAMED_BY_FAMILY.get(name, wanted["tokenizer.ggml.pre"])
    made = ours({**metadata, **tokenizer})
    if name in WITHOUT_PREDICTION:
        made, sources = without_prediction(made, sources, wanted)
    assert {key: made.pop(key)[1] for key in ADDED_KEYS.get(name, {})} == ADDED_KEYS.get(name, {})
    assert made == wanted
    assert [key for key in metadata if key in made] == [key for key in wanted if not key.startswith("tokenizer.")]
    assert [source.name for source in sources] == [tensor.name for tensor in reader.tensors]
    for source, tensor in zip(sources, reader.tensors, strict=True):
        assert (source.type, list(source.shape)) == (tensor.tensor_type.name, tensor.shape.tolist()[::-1]), source.name
        rows = source.rows(0, source.row_count)
        if source.name.endswith(".ssm_a"):  # -exp(A_log), which llama.cpp's converter rounds less exactly
            np.testing.assert_array_max_ulp(rows.view(np.float32).ravel(), tensor.data.ravel())
        else:
            assert rows.tobytes() == tensor.data.tobytes(), source.name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("embeddinggemma", "Gemma3TextModel cannot be converted"),
    ],
)
def test_what_edgellm_does_not_compute_is_refused_before_weights_are_read(
    shared: Path, tmp_path: Path, name: str, expected: str
) -> None:
    folder = shared / "archs" / name
    if not folder.is_dir():
        pytest.skip(f"needs archs/{name} in the shared data folder")
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    whole = (folder / "model.safetensors").read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    with (tmp_path / "model.safetensors").open("wb") as file:  # the header, and no weights: a sparse file
        file.write(whole[:header])
        file.truncate(len(whole))
    with pytest.raises(UnsupportedModelError, match=expected) as error:
        describe(Checkpoint.open(tmp_path))
    assert "\n" not in str(error.value)
