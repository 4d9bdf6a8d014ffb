"""The models on this machine, with what their headers say."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from edgellm.errors import ModelFileError
from edgellm.fmt import shown_path, size
from edgellm.gguf import GGUFFile
from edgellm.gguf.auxiliary import HEAD, auxiliary_kind
from edgellm.gguf.filetypes import FILE_TYPES
from edgellm.models.names import unique_names
from edgellm.models.pull_records import PulledRepository, pulled_repositories, unfinished_pulls
from edgellm.models.stores import StoredModel, stored_models

MODEL = "model"
"""The `kind` of a file that holds a model."""


@dataclass(frozen=True)
class LocalModel:
    """A file and facts from its header. `problem` is None, or why the file cannot be used.

    `name` is what MODEL accepts. `bytes` is the size of all parts. Facts that the file does not have are None. `kind`
    is `MODEL`, or that of an `edgellm.gguf.auxiliary.AuxiliaryKind`; None if it is not known.
    """

    name: str
    source: str
    path: str
    bytes: int | None = None
    quantization: str | None = None
    architecture: str | None = None
    context_length: int | None = None
    problem: str | None = None
    kind: str | None = None

    @property
    def is_auxiliary(self) -> bool:
        """Whether it holds no model but something for one, such as a head that drafts."""
        return self.kind not in (MODEL, None)


def find_models() -> list[LocalModel]:
    """All models on this machine, and auxiliary files. Only the headers of these are read.

    Unfinished pulls and pulled checkpoints are included; their `problem` says what to do next.
    """
    return list(each_model())


def each_model() -> Iterator[LocalModel]:
    """As `find_models`, but yields each model as soon as its header has been read."""
    models = stored_models()
    yield from map(read_header, unique_names(models), models)
    yield from _without_gguf()


def _without_gguf() -> Iterator[LocalModel]:
    """Unfinished pulls and checkpoints."""
    for kept in unfinished_pulls():
        share = f"{kept.present_bytes / max(1, kept.total):.0%} of {size(kept.total)} are downloaded"
        advice = f"`{kept.command}` resumes, `edgellm rm {kept.repository}` removes it"
        yield _with_problem(kept, f"is not complete yet: {share}; {advice}")
    for kept in pulled_repositories():
        if len(kept.weights) < len(kept.files):
            advice = (
                f"`{kept.command}` makes a GGUF file, `edgellm rm {kept.repository}` frees {size(kept.present_bytes)}"
            )
            yield _with_problem(kept, f"is a checkpoint: {advice}")


def _with_problem(kept: PulledRepository, problem: str) -> LocalModel:
    return LocalModel(kept.repository, "edgellm", str(kept.folder.absolute()), kept.present_bytes, problem=problem)


def read_header(name: str, model: StoredModel) -> LocalModel:
    """The model, under a name, with what the header of its file says."""
    path = model.path.absolute()
    try:
        with GGUFFile.open(path) as file:
            return _of_header(LocalModel(name, model.source, str(path), file.nbytes, _quantization(file)), file)
    except ModelFileError as error:
        problem = str(error).removeprefix(f"{shown_path(path)}: ")
        return LocalModel(name, model.source, str(path), _size(path), problem=problem)


def _of_header(known: LocalModel, file: GGUFFile) -> LocalModel:
    """With the kind of a file, and facts that only some kinds have. Raises ModelFileError."""
    found = auxiliary_kind(file.metadata)
    if found and found.kind != HEAD:
        architecture = file.hint("general.architecture", str)
        return replace(known, architecture=architecture, problem=found.refusal, kind=found.kind)
    context = file.get_int(f"{file.architecture}.context_length", None)
    kind = found.kind if found else MODEL
    return replace(known, architecture=file.architecture, context_length=context, kind=kind)


def _quantization(file: GGUFFile) -> str | None:
    """The quantization mix that the file declares; without one, the type of most of its bytes."""
    bytes_of: Counter[str] = Counter()
    for tensor in file.tensors.values():
        bytes_of[tensor.type.name] += tensor.nbytes
    most = next((name for name, _ in bytes_of.most_common(1)), None)
    kind = file.hint("general.file_type", int)
    return FILE_TYPES.get(-1 if kind is None else kind, most)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
