"""`convert ORG/NAME` downloads the files that the converter reads, and no others."""

import ast
import errno
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest

from converters import convert
from converters.checkpoint import files
from converters.required_files import SMALL_FILES, required_files
from edgellm import hub as ours
from edgellm.errors import EdgeLLMError, EdgeLLMWarning
from edgellm.hub.transfer import PartialFile
from support import ROOT
from support.eagle3_heads import TARGET, Head, write_head
from support.hub_server import COMMIT, Hub, breaks_off, hub, sends
from support.local_models import Machine, machine
from support.make_checkpoint import write_checkpoint

__all__ = ["hub", "machine"]

NAME = "someone/Tiny-Chat"
INDEX = "model.safetensors.index.json"
CARD = "---\nlicense: apache-2.0\nbase_model: someone/Tiny-Base\n---\nA model.\n"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A checkpoint with all files that publishers put beside the weights, and shards of unusual names."""
    folder = write_checkpoint(tmp_path / "made", layers=1, width=64, heads=1, kv_heads=1, ffn=64, shards=2)
    index = json.loads((folder / INDEX).read_text())
    odd = "extra_weights.v2.safetensors"
    (folder / "model-00002-of-00002.safetensors").rename(folder / odd)
    index["weight_map"] = {n: odd if "00002-of" in f else f for n, f in index["weight_map"].items()}
    (folder / INDEX).write_text(json.dumps(index))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "README.md").write_text(CARD)
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates/tool_use.jinja").write_text("tools")
    return folder


def serve(hub: Hub, folder: Path) -> None:
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    hub.repositories[NAME] = {name: path.read_bytes() for name, path in paths.items()}


def fetch() -> Path:
    return ours.fetch_checkpoint(NAME, ours.DownloadObserver(), required_files)


def fetched(hub: Hub) -> list[str]:
    return [asked.path.partition(f"{COMMIT}/")[2] for asked in hub.files_asked]


def test_no_room_for_a_small_file_is_an_error(
    made: Path, machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(part: PartialFile, chunk: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    serve(hub, made)
    monkeypatch.setattr(PartialFile, "write", full)
    with pytest.raises(EdgeLLMError, match=r"to the folder of temporary files \(No space left on device\)"):
        fetch()


def test_the_files_that_are_read_are_downloaded_and_no_others(made: Path, machine: Machine, hub: Hub) -> None:
    wanted = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    for name in ("model-decoy.safetensors", "pytorch_model.bin", "training_log.txt", "vocab.json", "sub/config.json"):
        machine.write(made / name, b"not read")
    serve(hub, made)
    folder = fetch()
    here = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert here - {".pulled.json"} == set(fetched(hub)) == wanted
    assert fetched(hub).count(INDEX) == 2  # once to learn the shards' names
    fetched_gguf, local = (
        convert(source, machine.here / f"{i}.gguf", "F16").path for i, source in enumerate((folder, made))
    )
    tensors = [{t.name: t.data.tobytes() for t in gguf.GGUFReader(path).tensors} for path in (fetched_gguf, local)]
    assert tensors[0] == tensors[1]
    fields = gguf.GGUFReader(fetched_gguf).fields
    assert fields["general.license"].contents() == "apache-2.0"
    assert fields["general.base_model.0.name"].contents() == "Tiny Base"
    assert fields["tokenizer.chat_template.tool_use"].contents() == "tools"
    asked = len(hub.files_asked)
    assert fetch() == folder
    assert len(hub.files_asked) == asked


def test_the_needed_files_are_those_that_the_converter_reads(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: set[str] = set()
    read: Callable[[Path, str], bytes | None] = files.read

    def record(folder: Path, name: str) -> bytes | None:
        looked_up.add((folder / name).relative_to(made).as_posix())
        return read(folder, name)

    monkeypatch.setattr(files, "read", record)
    monkeypatch.setattr("converters.vocabulary.templates.read_text", files.read_text)
    for missing in ("", "chat_template.jinja", "tokenizer.json"):
        (made / missing).unlink() if missing else None
        try:
            convert(made, made.with_suffix(".gguf"), "F16", force=True)
        except EdgeLLMError:
            assert missing == "tokenizer.json"
    assert {"config.json", "README.md", "chat_template.jinja"} < looked_up
    index = b'{"weight_map": {"a": "b.safetensors"}}'
    contents = {INDEX: index, "config.json": (made / "config.json").read_bytes()}
    assert looked_up <= set(required_files(looked_up, contents.__getitem__))


def test_a_file_that_the_converter_names_is_downloaded() -> None:
    """Also the files that are read only under certain conditions."""
    named: set[str] = set()
    for path in (ROOT / "converters").rglob("*.py"):
        constants = (n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant))
        named |= {c for c in constants if isinstance(c, str) and re.fullmatch(r"\w+\.(json|jinja|model|md|txt)", c)}
    assert "added_tokens.json" in named
    assert named - {"params.json"} == SMALL_FILES  # a message tells that it is there


def test_an_interrupted_download_is_resumed(made: Path, machine: Machine, hub: Hub) -> None:
    serve(hub, made)
    hub.faults = [*[breaks_off(1 << 30)] * 8, sends(b"", 404)]
    with pytest.raises(EdgeLLMError):
        fetch()
    assert not (machine.own / "models" / NAME).exists()
    folder, again = fetch(), fetched(hub)[9:]
    assert sorted(set(again) - {INDEX}) == sorted(set(fetched(hub)[8:]) - {INDEX})
    assert json.loads((folder / INDEX).read_text())["weight_map"]


NONE = "does not say which file has which weight"
BROKEN = {
    "no JSON": (b"{", NONE),
    "no map": (b'{"weight_map": 3}', NONE),
    "no files": (b'{"weight_map": {}}', NONE),
    "no names": (b'{"weight_map": {"a": ["b"]}}', NONE),
    "a folder": (b'{"weight_map": {"a": "../x.safetensors"}}', NONE),
    "deep": (b"[" * 100_000, NONE),
    "a missing shard": (b'{"weight_map": {"a": "none.safetensors"}}', "lacks none.safetensors, which its index names"),
    "an odd shard": (b'{"weight_map": {"a": "$(x).safetensors"}}', r"the file \$\(x\).safetensors is not fetched: "),
}


@pytest.mark.parametrize("index", BROKEN)
def test_an_invalid_index_is_refused_before_any_weight(index: str, made: Path, machine: Machine, hub: Hub) -> None:
    content, told = BROKEN[index]
    serve(hub, made)
    hub.repositories[NAME] |= {INDEX: content, "$(x).safetensors": b"1"}
    with pytest.raises(EdgeLLMError, match=f"{NAME}.*{told}") as refused:
        fetch()
    assert "\n" not in str(refused.value)
    assert fetched(hub) == ["config.json", INDEX]
    assert not (machine.own / "models").exists()


def test_an_index_of_impossible_size_is_not_fetched(made: Path, machine: Machine, hub: Hub) -> None:
    serve(hub, made)
    hub.lies[INDEX] = {"size": (1 << 26) + 1}
    with pytest.raises(EdgeLLMError, match=f"{INDEX}: has 67.1 MB, too much for this kind of file"):
        fetch()
    assert fetched(hub) == ["config.json"]


def test_an_index_that_is_incomplete_in_the_cache_is_downloaded(made: Path, machine: Machine, hub: Hub) -> None:
    serve(hub, made)
    snapshot = machine.hub / "models--someone--Tiny-Chat/snapshots" / COMMIT
    shutil.copytree(made, snapshot)
    (snapshot / INDEX).write_text("{}")
    folder = fetch()
    assert (folder / INDEX).read_bytes() == (made / INDEX).read_bytes()


def test_shards_without_an_index_are_refused_before_any_weight(made: Path, machine: Machine, hub: Hub) -> None:
    (made / INDEX).unlink()
    serve(hub, made)
    with pytest.raises(EdgeLLMError, match=f"2 .safetensors files have no {INDEX};"):
        fetch()
    assert hub.files_asked == []


def test_a_repository_without_a_tokenizer_is_refused_before_any_weight(made: Path, machine: Machine, hub: Hub) -> None:
    (made / "tokenizer.json").rename(made / "vocab.json")
    serve(hub, made)
    with pytest.raises(EdgeLLMError, match=f"^{NAME}: there is no tokenizer.json, tokenizer.model or tekken.json; "):
        fetch()
    assert fetched(hub) == ["config.json"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (b'{"architectures": ["JambaForCausalLM"]}', "JambaForCausalLM cannot be converted; choose a model of"),
        (b'{"architectures": ["LlamaForCausalLM"], "quantization_config": {"quant_method": "hqq"}}', "already, by HQQ"),
        (b"[]", "config.json: must hold a JSON object"),
        (b"{", "config.json: is no valid JSON"),
    ],
)
def test_an_unsupported_checkpoint_is_refused_before_any_weight(
    made: Path, machine: Machine, hub: Hub, config: bytes, said: str
) -> None:
    (made / "config.json").write_bytes(config)
    serve(hub, made)
    with pytest.raises(EdgeLLMError, match=f"^{NAME}: .*{said}"):
        fetch()
    assert fetched(hub) == ["config.json"]


@pytest.mark.parametrize("missing", ["chat_template.jinja", "model-00001-of-00002.safetensors"])
def test_a_cache_that_lacks_more_than_the_card_is_not_used(
    made: Path, machine: Machine, hub: Hub, missing: str
) -> None:
    serve(hub, made)
    snapshot = machine.hub / "models--someone--Tiny-Chat/snapshots" / COMMIT
    shutil.copytree(made, snapshot)
    (snapshot / missing).unlink()
    assert fetch() == machine.own / "models" / NAME


def test_a_cache_without_the_model_card_is_used(made: Path, machine: Machine, hub: Hub) -> None:
    serve(hub, made)
    snapshot = machine.hub / "models--someone--Tiny-Chat/snapshots" / COMMIT
    shutil.copytree(made, snapshot)
    assert fetch() == snapshot
    convert(snapshot, machine.here / "out.gguf", "F16")
    assert gguf.GGUFReader(machine.here / "out.gguf").fields["general.name"].contents() == "Tiny Chat"  # not the commit
    (snapshot / "README.md").unlink()
    with pytest.warns(EdgeLLMWarning, match="has no README.md, so licence and base model are left out"):
        assert fetch() == snapshot
    assert hub.files_asked == []
    (snapshot / "chat_template.jinja").unlink()
    assert fetch() == machine.own / "models" / NAME


def test_published_shards_with_unusual_names(shared: Path, machine: Machine, hub: Hub) -> None:
    if not (shared / "field").is_dir():
        pytest.skip("needs checkpoints of shared/field")
    serve(hub, shared / "field/odd-shard-name")
    assert "extra-weights.safetensors" in {path.name for path in fetch().iterdir()}
    assert convert(fetch(), machine.here / "out.gguf", "F16").path.exists()


def test_a_draft_head_needs_no_tokenizer_but_a_target(tmp_path: Path, machine: Machine, hub: Hub) -> None:
    target = write_checkpoint(tmp_path / "target", **TARGET)
    serve(hub, write_head(tmp_path / "head", Head()))
    with pytest.raises(EdgeLLMError, match="is an EAGLE-3 head, which drafts for another model: name that with --tar"):
        convert(NAME, tmp_path / "out.gguf", "F16")
    assert fetched(hub) == ["config.json"]
    convert(NAME, tmp_path / "out.gguf", "F16", target=target)
    assert (tmp_path / "out.gguf").exists()


def test_a_head_that_is_not_supported_is_refused_before_its_weights_are_downloaded(
    tmp_path: Path, machine: Machine, hub: Hub
) -> None:
    target = write_checkpoint(tmp_path / "target", **TARGET)
    serve(hub, write_head(tmp_path / "head", Head(), {"num_hidden_layers": 2}))
    with pytest.raises(EdgeLLMError, match=f"{NAME}: config.json: EAGLE-3 heads of several layers"):
        convert(NAME, tmp_path / "out.gguf", "F16", target=target)
    serve(hub, target)
    with pytest.raises(EdgeLLMError, match="--target is for draft heads, and this checkpoint is a whole model"):
        convert(NAME, tmp_path / "out.gguf", "F16", target=target)
    assert set(fetched(hub)) == {"config.json"}
