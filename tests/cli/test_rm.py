"""`edgellm rm` removes pulled files, and no others."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from edgellm.cli.rm import command
from edgellm.errors import EdgeLLMError, ModelFileError, OptionError
from edgellm.models import find_models, resolve
from edgellm.models.lock import pull_lock
from edgellm.models.pull_records import FileRecord, incoming_folder, write_record
from support.local_models import Machine, machine, model

__all__ = ["machine"]

NAME = "org/name-GGUF"


def run(*args: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(command, args, input=answer, catch_exceptions=False)


def pulled(machine: Machine, *names: str, repository: str = NAME) -> list[Path]:
    """Files as `edgellm pull` leaves them."""
    folder = machine.own / "models" / repository
    paths = [machine.write(folder / name, model(n + 1)) for n, name in enumerate(names)]
    write_record(
        folder, {name: FileRecord(path.stat().st_size, "sha256:") for name, path in zip(names, paths, strict=True)}
    )
    return paths


def everything(machine: Machine) -> set[Path]:
    root = machine.home.parent
    return {path for path in root.rglob("*") if not path.is_dir()}


def test_it_asks_and_shows_the_freed_bytes(machine: Machine) -> None:
    (path,) = pulled(machine, "m-Q8_0.gguf")
    no = run("m-Q8_0", answer="n\n")
    assert (no.exit_code, no.stdout) == (0, "")
    assert f"remove this, and free {path.stat().st_size} bytes? [y/N]" in no.stderr
    assert path.exists()
    yes = run("m-Q8_0", answer="y\n")
    assert (yes.exit_code, yes.stdout) == (0, no.stderr.partition("free ")[2].partition("?")[0] + " freed\n")
    assert not path.exists()


@pytest.mark.parametrize("name", ["m", "M", "org/name-GGUF:Q8_0", "org/name-GGUF/m-q8_0.gguf", NAME, "ORG/NAME-gguf"])
def test_names_of_a_removable_model(name: str, machine: Machine) -> None:
    pulled(machine, "m-Q8_0.gguf")
    if name.endswith(".gguf"):
        name = str(machine.own / "models" / name.replace("q8_0", "Q8_0"))
    assert run(name, "-y").exit_code == 0
    assert everything(machine) == set()
    assert list((machine.own / "models").iterdir()) == []


def test_one_model_of_a_repository_or_all(machine: Machine) -> None:
    names = ("m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf", "m-Q2_K.gguf", "m-F16.gguf")
    paths = pulled(machine, *names)
    assert run(f"{NAME}:Q8_0", "--yes").exit_code == 0
    assert [path.exists() for path in paths] == [False, False, True, True]
    assert run(NAME, "--yes").exit_code == 0
    assert everything(machine) == set()


def test_a_model_is_removed_by_any_path_to_any_part(machine: Machine) -> None:
    names = ("m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf", "m-Q2_K.gguf")
    paths = pulled(machine, *names)
    (machine.here / "link").symlink_to(paths[0].parent, target_is_directory=True)
    assert run("link/m-Q8_0-00002-of-00002.gguf", "--yes").exit_code == 0
    assert [path.exists() for path in paths] == [False, False, True]


def test_several_at_once_and_one_named_twice(machine: Machine) -> None:
    pulled(machine, "a-Q8_0.gguf", "b-Q8_0.gguf", "c-Q8_0.gguf")
    assert run("a-Q8_0", "b-Q8_0", "a-Q8_0", "--yes").exit_code == 0
    assert [found.name for found in find_models()] == ["c-Q8_0"]


def test_nothing_is_removed_if_one_name_is_wrong(machine: Machine) -> None:
    pulled(machine, "a-Q8_0.gguf", "b-Q8_0.gguf")
    before = everything(machine)
    for wrong, told in (("none", "no model named none"), ("org", "may be any of a-Q8_0, b-Q8_0")):
        with pytest.raises(ModelFileError, match=told):
            run("a-Q8_0", wrong, "--yes")
    assert everything(machine) == before


def test_unfinished_pulls_and_checkpoints(machine: Machine) -> None:
    files = {"m-Q8_0.gguf": FileRecord(1000, "sha256:1")}
    folder = incoming_folder(NAME, files)
    machine.write(folder / "m-Q8_0.gguf.part", b"GGUF" * 100)
    write_record(folder, files)
    machine.write(folder.with_suffix(".lock"), b"")
    pulled(machine, "config.json", "model.safetensors", repository="org/checkpoint")
    told = run(NAME, "org/checkpoint", "--yes")
    assert f"{NAME}, an unfinished pull: 400 bytes in {folder}" in told.stderr
    assert everything(machine) == set()
    assert not (machine.own / "models/.incoming").exists()


def test_a_running_pull_is_not_removed(machine: Machine) -> None:
    files = {"m-Q8_0.gguf": FileRecord(1000, "sha256:1")}
    folder = incoming_folder(NAME, files)
    part = machine.write(folder / "m-Q8_0.gguf.part", b"GGUF")
    write_record(folder, files)
    with pull_lock(folder, NAME), pytest.raises(EdgeLLMError, match="is being pulled by another edgellm"):
        run(NAME, "--yes")
    assert part.exists()
    assert run(NAME, "--yes").exit_code == 0


def test_files_of_other_programs_are_refused_with_advice(machine: Machine) -> None:
    machine.write("models/mine.gguf", model(1))
    machine.write(machine.own / "models/put.gguf", model(2))
    machine.hugging_face("org/name", "a" * 40, "hugging.gguf", model(3))
    machine.ollama_model("registry.ollama.ai/library/qwen3/8b", "a", model(4))
    machine.write(machine.home / ".lmstudio/models/someone/repo/studio.gguf", model(5))
    pulled(machine, "ours.gguf")
    machine.write(machine.own / "models" / NAME / "beside.gguf", model(6))
    before = everything(machine)
    for name, told in (
        ("mine", "was not pulled by edgellm; remove the file yourself"),
        ("put", "was not pulled by edgellm; remove the file yourself"),
        ("beside", "was not pulled by edgellm; remove the file yourself"),
        ("hugging", "`hf cache rm model/org/name` removes it"),
        ("qwen3:8b", "`ollama rm qwen3:8b` removes it"),
        ("studio", "belongs to LM Studio; remove it there"),
        ("./models/mine.gguf", "was not pulled by edgellm"),
    ):
        with pytest.raises(ModelFileError, match=told):
            run(name, "--yes")
    assert everything(machine) == before
    assert run(NAME, "--yes").exit_code == 0
    assert before - everything(machine) == {
        machine.own / "models" / NAME / "ours.gguf",
        machine.own / "models" / NAME / ".pulled.json",
    }


@pytest.mark.parametrize("name", ["../../../mine.gguf", "/tmp/mine.gguf", "..\\mine.gguf"])
def test_a_record_cannot_name_files_outside_its_folder(name: str, machine: Machine) -> None:
    mine = machine.write(machine.own / "mine.gguf", model(1))
    pulled(machine, "m.gguf")
    record = machine.own / "models" / NAME / ".pulled.json"
    record.write_text(record.read_text().replace('"m.gguf"', f'"{name}"'.replace("\\", "\\\\")))
    with pytest.raises(ModelFileError):
        run(NAME, "--yes")
    assert mine.exists()


def test_links_are_removed_but_not_their_targets(machine: Machine) -> None:
    (path,) = pulled(machine, "m.gguf")
    elsewhere = path.rename(machine.home / "elsewhere.gguf")
    path.symlink_to(elsewhere)
    assert run(NAME, "--yes").exit_code == 0
    assert everything(machine) == {elsewhere}


def test_no_answer_is_wrong_usage(machine: Machine) -> None:
    (path,) = pulled(machine, "m.gguf")
    with pytest.raises(OptionError, match="give --yes"):
        run("m", answer="")
    command = [sys.executable, "-m", "edgellm", "rm", "m"]
    told = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.splitlines()[-1].endswith("stdin gives no answer; give --yes")
    assert resolve("m") == path
