"""Whatever is in a model file: it runs, or one clear error says why not. See also test_gguf_fuzz.py."""

import struct
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFReader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.damaged_files import peak_memory, runs
from support.fuzz_gguf import damaged
from support.model_file import ModelFile

pytestmark = pytest.mark.slow

TINY: dict[str, Any] = {"width": 32, "heads": 2, "kv_heads": 1, "head_dim": 16, "ffn": 32, "layers": 1, "types": "F32"}
FILES: dict[str, dict[str, Any]] = {
    "F32": TINY | {"rope_scaling": "yarn", "chat_template": "{{ messages[0].content }}"},
    "Q8_0": TINY | {"types": "Q8_0", "tokenizer": "gpt2", "head_dim": 32, "rope_scaling": "llama3", "tied": False},
    "Q4_K": TINY | {"types": "Q4_K", "width": 256, "head_dim": 128, "ffn": 256, "rope_scaling": "linear"},
}
EXAMPLES = [300, pytest.param(3000, marks=pytest.mark.exhaustive)]  # of each file; a case takes some 5 ms
MOST_MEMORY = 300e6
FUZZ = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)


def scratched(content: bytes) -> st.SearchStrategy[bytes]:
    """`content` with one to six other bytes anywhere, half of them in the weights: most such files still load."""
    at = st.integers(0, len(content) - 1) | st.integers(len(content) // 2, len(content) - 1)

    def apply(scratches: list[tuple[int, int]]) -> bytes:
        result = bytearray(content)
        for place, value in scratches:
            result[place] = value
        return bytes(result)

    return st.lists(st.tuples(at, st.integers(0, 255)), min_size=1, max_size=6).map(apply)


@pytest.mark.parametrize("name", FILES)
def test_untouched_files_run(model_file: ModelFile, name: str) -> None:
    assert runs(model_file(**FILES[name]))


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("name", FILES)
def test_damaged_files_run_or_say_why_not(model_file: ModelFile, tmp_path: Path, name: str, examples: int) -> None:
    content = model_file(**FILES[name]).read_bytes()
    header = GGUFReader(model_file(**FILES[name])).data_offset
    path, outcomes, before = tmp_path / "m.gguf", [0, 0], peak_memory()

    @settings(FUZZ, max_examples=examples)
    @given(damaged(content, header) | scratched(content))
    def run(data: bytes) -> None:
        path.write_bytes(data)
        outcomes[runs(path)] += 1

    run()
    assert min(outcomes) > examples // 16, "nearly all or nearly none ran: such damage tests little"
    assert peak_memory() - before < MOST_MEMORY


NUMBERS = st.sampled_from([0, 1, 2, 3, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1]) | st.integers(0, 600)
REALS = st.floats(allow_nan=True, allow_infinity=True, width=32)


def places(path: Path) -> dict[str, tuple[int, bool]]:
    """Where in a file the 32-bit numbers of its metadata stand, and which are real; by key."""
    fields = [field for field in GGUFReader(path).fields.values() if field.types[0] in (4, 6)]
    found = {}
    for field in fields:
        if field.offset != 4:  # the version, which the reader shows as a key too
            before = sum(part.nbytes for part in field.parts[: field.data[0]])
            found[field.name] = (field.offset + before, field.types[0] == 6)
    return found


@pytest.mark.parametrize("examples", EXAMPLES)
def test_numbers_of_any_size_in_the_metadata(model_file: ModelFile, tmp_path: Path, examples: int) -> None:
    """One or two of the numbers replaced, where they stand."""
    source, path, outcomes = model_file(**FILES["F32"]), tmp_path / "m.gguf", [0, 0]
    content, numbers = source.read_bytes(), places(source)
    keys = st.lists(st.sampled_from(sorted(numbers)), min_size=1, max_size=2, unique=True)

    @settings(FUZZ, max_examples=examples)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        changed = bytearray(content)
        for key in data.draw(keys):
            at, real = numbers[key]
            value = data.draw(REALS if real else NUMBERS, label=key)
            struct.pack_into("<f" if real else "<I", changed, at, value)
        path.write_bytes(changed)
        outcomes[runs(path)] += 1

    run()
    assert min(outcomes) > examples // 20
