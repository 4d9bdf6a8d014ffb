"""The matrices of a model that can be compensated, by what they are multiplied by."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from converters.gptq.code_layouts import CODE_LAYOUTS
from converters.row_converter import is_copied
from converters.tensors import PlannedTensor
from edgellm.arch.description import Description
from edgellm.engine.build_program import build_program
from edgellm.engine.outputs import OutputSettings

_EMBEDDINGS = ("token_embd.weight", "output.weight")
"""Left out: one row of the first is an input by itself, and the second often is the first."""


class Input(NamedTuple):
    """What the tensors `names` are multiplied by, `columns` values for each token."""

    names: tuple[str, ...]
    columns: int

    @property
    def hessian_bytes(self) -> int:
        """Bytes of the sum of xᵀx, as float32."""
        return 4 * self.columns**2


def can_be_compensated(tensor: PlannedTensor) -> bool:
    """Whether a tensor is a matrix that gets a type with codes that can be chosen one by one."""
    source = tensor.source
    is_matrix = len(source.shape) == 2 and source.name not in _EMBEDDINGS
    return is_matrix and tensor.type.name in CODE_LAYOUTS and not is_copied(tensor)


def inputs_of(model: Description, wanted: Collection[str]) -> list[Input]:
    """The inputs of the tensors `wanted`, in the order of the layers, with the names of those alone.

    Left out are tensors that are used in places with different neighbours, and those of which a token reads some rows
    alone, as experts: their inputs are of some tokens.
    """
    settings = OutputSettings(logits=False, inputs=frozenset(wanted))
    given = {(each.names, each.columns) for each in build_program(model, "f16", outputs=settings).given}
    places = Counter(name for names, _ in given for name in names)
    found = []
    for each in build_program(model, "f16", outputs=settings).given:
        names = tuple(name for name in each.names if name in settings.inputs and places[name] == 1)
        if names and Input(names, each.columns) not in found:
            found.append(Input(names, each.columns))
    return found


def passes(inputs: Iterable[Input], budget: int) -> Iterator[list[Input]]:
    """The inputs in groups whose Hessians fit `budget` bytes together, or are a single one."""
    group: list[Input] = []
    for each in inputs:
        if group and sum(one.hessian_bytes for one in [*group, each]) > budget:
            yield group
            group = []
        group.append(each)
    if group:
        yield group
