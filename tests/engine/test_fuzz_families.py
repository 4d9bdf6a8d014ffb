"""Whatever the metadata and the tensor table of a family's file say: it computes, or one clear error says why not."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from gguf import GGUFReader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgellm import EdgeLLMError
from support.engine_bits import fresh, opened
from support.model_file import FamilyFile

pytestmark = pytest.mark.slow

# A case of each architecture, with the most settings to damage.
CASES = [
    *("mistral_window", "qwen2_window", "qwen3_window", "qwen2_vl", "qwen3_vl", "ministral3", "smollm3", "phi4_mini"),
    *("granite", "olmo3", "cohere2", "glm4_biases", "exaone4_1b", "ernie4_5", "hunyuan", "seed_oss", "starcoder2"),
    *("stablelm_12b", "apertus", "muse_glimmer", "gemma", "gemma2", "gemma3_4b", "gemma3n", "gemma4_e2b", "gemma4_31b"),
    *("gemma4_26b", "granitemoe_shared", "ernie4_5_21b", "hunyuan_moe", "phimoe"),
    *("qwen3moe_window", "qwen2moe", "olmoe", "mixtral", "minimax_m2", "gpt_oss", "deepseek_v2", "deepseek_v3"),
    *("glm4_5", "dots1", "ling2", "llama4_scout", "cohere2_moe", "mellum", "laguna_xs"),
    *("qwen3_5", "qwen3_5_moe", "qwen3_next", "kimi_linear", "granite4_h_tiny", "falcon_mamba", "mamba2"),
    "falcon_h1",
    *("lfm2_moe", "nemotron_h", "nemotron3_super"),
]
EXAMPLES = [25, pytest.param(250, marks=pytest.mark.exhaustive)]  # of each; a case takes some 10 ms
FUZZ = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

INTEGERS = st.sampled_from([0, 1, 2, 3, 5, 7, 8, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1]) | st.integers(0, 600)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "<I": INTEGERS,
    "<i": INTEGERS.map(lambda n: n % 2**31) | st.integers(-9, -1),
    "<Q": INTEGERS | st.sampled_from([2**32, 2**60, 2**63, 2**64 - 1]),
    "<f": st.floats(allow_nan=True, allow_infinity=True, width=32) | st.floats(0, 100, width=32),
    "<B": st.integers(0, 2),
}
FORMATS = {4: "<I", 5: "<i", 6: "<f", 7: "<B"}
"""Formats of the value types of GGUF that architectures' keys have."""


class Place(NamedTuple):
    """A number in a file: what it is, where it stands, and its format for `struct`."""

    name: str
    at: int
    format: str


def places(path: Path) -> Iterator[Place]:
    """The numbers of the architecture's keys, and the dimensions, types and first letters of the tensor table."""
    reader = GGUFReader(path)
    for field in reader.fields.values():
        if field.name.startswith(("general.", "tokenizer.", "GGUF.")) or field.types[-1] not in FORMATS:
            continue
        for i in field.data:
            yield Place(field.name, field.offset + sum(p.nbytes for p in field.parts[:i]), FORMATS[field.types[-1]])
    for tensor in reader.tensors:
        name_bytes, dims, kind = (sum(p.nbytes for p in tensor.field.parts[:i]) for i in (1, 3, 4))
        start = tensor.field.offset
        yield Place(f"name of {tensor.name}", start + name_bytes, "<B")
        yield from (Place(f"dimension of {tensor.name}", start + dims + 8 * i, "<Q") for i in range(len(tensor.shape)))
        yield Place(f"type of {tensor.name}", start + kind, "<I")


def computes(path: Path) -> bool:
    """Open the file and compute some logits; False when a clear error in one line ended that."""
    try:
        with opened(path, threads=1, ctx=64) as engine:
            fresh(engine, [3, 1, 2, 0, 3])
    except EdgeLLMError as error:
        assert str(error)
        assert "\n" not in str(error)
        return False
    return True


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("name", CASES)
def test_changed_numbers_compute_or_say_why_not(
    family_file: FamilyFile, tmp_path: Path, name: str, examples: int
) -> None:
    source, path, outcomes = family_file(name), tmp_path / "m.gguf", [0, 0]
    assert computes(source)
    content, numbers = source.read_bytes(), list(places(source))
    keys = [place for place in numbers if " of " not in place.name]
    no_sizes = [place for place in keys if place.format in ("<f", "<B") or "sliding" in place.name]
    place = st.sampled_from(no_sizes) | st.sampled_from(keys) | st.sampled_from(numbers)

    @settings(FUZZ, max_examples=examples)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        changed = bytearray(content)
        for each in data.draw(st.lists(place, min_size=1, max_size=2, unique_by=lambda place: place.at)):
            struct.pack_into(each.format, changed, each.at, data.draw(VALUES[each.format], label=each.name))
        path.write_bytes(changed)
        outcomes[computes(path)] += 1

    run()
    assert outcomes[0] > examples // 20, "nearly all computed: such damage tests little"
