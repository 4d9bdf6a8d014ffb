"""Where the models of the list come from: this machine and Hugging Face, or a server."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from edgellm.fmt import printable
from tui.core.error_text import error_line
from tui.models.catalog import all_rows
from tui.models.row import ModelRow
from tui.models.typed_name import typed_row


@dataclass(frozen=True)
class ModelSource:
    """`find` finds the rows, and `typed` makes one of a text in the filter that is not among them.

    `title` stands above models that can be opened, `placeholder` in the empty filter; `advice` is for a text that no
    row has.
    """

    find: Callable[[], Iterable[ModelRow]]
    typed: Callable[[str, Iterable[ModelRow]], Iterable[ModelRow]]
    title: str
    placeholder: str
    advice: str


THIS_MACHINE = ModelSource(
    all_rows,
    typed_row,
    "on this machine",
    "type to filter, or ORG/NAME to pull from Hugging Face",
    "no model here has this name; ORG/NAME pulls a model from Hugging Face",
)


def of_server(host: str, names: Callable[[], Sequence[str]]) -> ModelSource:
    """The models that a server has."""

    shown = printable(host, 44)

    def rows() -> Iterator[ModelRow]:
        try:
            yield from (ModelRow(name, "") for name in names())
        except Exception as error:
            yield ModelRow(f"models at {shown}", "", problem=error_line(error))

    advice = f"{shown} lists no such model; /model NAME asks it for one"
    return ModelSource(rows, lambda typed, rows: (), f"at {shown}", "type to filter", advice)
