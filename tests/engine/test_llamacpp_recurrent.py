"""llama.cpp cannot go back in a recurrent state: what is lost is computed again, and the text is that of our engine."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import Model
from edgellm.engine.protocol import Segment, Stopped
from edgellm.gguf import GGUFFile
from edgellm.llamacpp.engine import LlamaCppEngine
from support.generation import RECURRENT
from support.logits_bits import IDS
from support.model_file import ModelFile

pytestmark = pytest.mark.skipif(find_spec("llama_cpp") is None, reason="needs llama-cpp-python, the engine itself")

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
# Capital letters alone, which are one token each, so that what was written is read as the same tokens.
LETTERS = {3 + byte for byte in range(65, 91)}
GREEDY: dict[str, Any] = {"temp": 0, "max_tokens": 12}
GREEDY["logit_bias"] = {i: -float("inf") for i in range(320) if i not in LETTERS}


@pytest.fixture(scope="module")
def path(model_file: ModelFile) -> Path:
    return model_file(**RECURRENT, chat_template=TEMPLATE)


@pytest.fixture(scope="module")
def engine(path: Path) -> Iterator[LlamaCppEngine]:
    with GGUFFile.open(path) as file:
        engine = LlamaCppEngine(file, threads=2, ctx=512, kv_type="f32")
        yield engine
        engine.close()


def last(engine: LlamaCppEngine, sequence: object, ids: list[int]) -> np.ndarray:
    return engine.forward([Segment(sequence, ids, [len(ids) - 1])])[0]


def test_several_turns_a_regenerated_reply_an_edit_and_back(path: Path) -> None:
    def turns(engine: str) -> tuple[list[list[int]], list[int]]:
        with Model.open(path, threads=1, engine=engine, kv_type="f32") as model:
            chat, asked, tokens, cached = model.chat(**GREEDY), list[dict[str, str]](), [], []
            for number in range(4):
                asked.append({"role": "user", "content": chr(65 + number) * 20})
                for messages in (asked, asked, [*asked[:-1], {"role": "user", "content": "ZZ"}]):
                    done = chat.reply(messages).completion()
                    tokens.append(done.tokens)
                    cached.append(done.stats.cached_tokens)
                asked.append({"role": "assistant", "content": model.tokenizer.decode(tokens[-3])})
        return tokens, cached

    tokens, cached = turns("llama.cpp")
    assert tokens == turns("edgellm")[0]
    assert all(cached[3::3]), "a new message follows what is there"
    assert cached[1] == 0, "the state before a reply that is regenerated is gone"


def test_a_sequence_tells_how_far_back_it_goes(engine: LlamaCppEngine) -> None:
    stem = engine.new_sequence()
    last(engine, stem, IDS[:40])
    branch = stem.fork()
    assert [stem.reach(n) for n in (0, 39, 40, 41)] == [0, 0, 40, 40]
    assert (branch.trim(40), branch.trim(20), len(branch)) == (40, 0, 0)
    assert np.abs(last(engine, branch, IDS[:30]) - last(engine, engine.new_sequence(), IDS[:30])).max() < 1e-4
    assert np.abs(last(engine, stem, [7]) - last(engine, engine.new_sequence(), [*IDS[:40], 7])).max() < 1e-4


def test_a_stopped_batch_is_computed_again(engine: LlamaCppEngine) -> None:
    sequence = engine.new_sequence()
    last(engine, sequence, IDS[:20])
    engine.stop()
    with pytest.raises(Stopped):
        last(engine, sequence, IDS[20:40])
    engine.clear_stop()
    assert sequence.tokens == IDS[:20]
    alone = last(engine, engine.new_sequence(), IDS[:40])
    assert np.abs(last(engine, sequence, IDS[20:40]) - alone).max() < 1e-4
