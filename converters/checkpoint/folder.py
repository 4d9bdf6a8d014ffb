"""Which files of a folder hold the weights. A folder that cannot be converted is refused with advice."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from converters.checkpoint.files import fail, is_plain, read_object
from edgellm.fmt import printable

INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_PICKLED = (
    "unpickling it would run whatever code is inside; get a revision with .safetensors files, or load it where that "
    "is safe and save it with transformers' save_pretrained"
)


def model_name(folder: Path) -> str:
    """The name of a checkpoint, from its folder; may be empty.

    In the hub's cache the folder is models--ORG--NAME/snapshots/COMMIT, and the name is NAME.
    """
    path = folder if folder.name not in ("", "..") else folder.resolve()
    if path.parent.name == "snapshots" and path.parent.parent.name.startswith("models--"):
        return path.parent.parent.name.rpartition("--")[2]
    return path.name


def weight_files(folder: Path) -> Mapping[str, set[str] | None]:
    """The files that hold the weights, each with its tensor names in the index, or None without an index.

    As in transformers, model.safetensors has precedence over the index; a single file may have any name.
    Raises ModelFileError.
    """
    names = _names(folder)
    found = weights_or_index(names)
    if found == [INDEX]:
        return _read_index(folder)
    if len(found) == 1:
        return {found[0]: None}
    if found:
        fail(folder, f"has {len(found)} .safetensors files, but no {INDEX} to say what is in them; download it")
    return _refuse_folder(folder, names)


def weights_or_index(names: Iterable[str]) -> list[str]:
    """From the files in a folder: model.safetensors, or the index, or else all .safetensors files but adapters."""
    found = sorted(names)
    if _SINGLE in found or INDEX in found:
        return [_SINGLE if _SINGLE in found else INDEX]
    return [name for name in found if name.endswith(".safetensors") and not name.startswith("adapter_")]


def _names(folder: Path) -> set[str]:
    """The names in a folder."""
    try:
        return {path.name for path in folder.iterdir()}
    except NotADirectoryError:
        _refuse_file(folder)
    except FileNotFoundError:
        fail(folder, "there is no such folder; check the path")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        fail(folder, f"cannot be read ({reason}); check the path and its permissions")


def _refuse_file(path: Path) -> NoReturn:
    kind = path.suffix.lower()
    if kind == ".gguf":
        fail(path, "is a GGUF file already; `edgellm quantize` changes its types")
    if kind == ".safetensors":
        fail(path, "holds weights alone; name the folder it is in, with config.json and a tokenizer")
    if kind in _PICKLES:
        fail(path, f"is a pickle, and {_PICKLED}")
    fail(path, "is not a folder; name a folder with config.json and .safetensors files")


def _refuse_folder(folder: Path, names: set[str]) -> NoReturn:
    """Raise ModelFileError that says what a folder without a model's safetensors holds."""
    if any(name.startswith("adapter_") for name in names):
        fail(folder, "holds a LoRA adapter, not a model; merge it into its base model (peft: merge_and_unload) first")
    pickles = sorted(name for name in names if name.lower().endswith(_PICKLES))
    if pickles:
        fail(folder, f"its weights are pickled ({printable(pickles[0])}), and {_PICKLED}")
    if any(name.lower().endswith(".gguf") for name in names):
        fail(folder, "holds GGUF files, which need no conversion; `edgellm quantize` changes the types of one")
    if "snapshots" in names:
        fail(folder, "is a model in the hub's cache; name the folder inside its folder snapshots")
    fail(folder, "has no .safetensors file; download the whole checkpoint")


def _read_index(folder: Path) -> dict[str, set[str] | None]:
    index = read_object(folder, INDEX) or {}
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        fail(folder / INDEX, "has no weight_map, which says what is in which file; download it again")
    files: dict[str, set[str]] = {}
    for name, file in weight_map.items():
        if not isinstance(file, str) or not is_plain(file):
            where = printable(str(file))
            fail(folder / INDEX, f'puts {printable(name)} outside of the folder, in "{where}"; download it again')
        files.setdefault(file, set()).add(name)
    return dict(files)
