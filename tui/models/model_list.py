"""The list of models, in sections."""

from collections.abc import Iterator, Sequence

from textual import on
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tui.models.columns import HERE, TableColumns, broken, heading, offered, row_line
from tui.models.row import ModelRow


class ModelList(OptionList, can_focus=False):
    """Shows rows in sections; the screen passes on the keys, as the filter has the focus.

    The highlighted row stays highlighted when it moves as more rows come.
    """

    class Chosen(Message):
        """A row was clicked."""

        def __init__(self, row: ModelRow) -> None:
            super().__init__()
            self.row = row

    class Pointed(Message):
        """Another row is highlighted, or none."""

        def __init__(self, row: ModelRow | None) -> None:
            super().__init__()
            self.row = row

    def __init__(self, current: str | None, title: str) -> None:
        """`title` stands above the models that can be opened."""
        super().__init__(markup=False)
        self._title = title
        self._current, self._kept = current, (current, False)
        self._rows: Sequence[ModelRow] = ()
        self._at: list[ModelRow | None] = []
        self._looking = True

    @property
    def row(self) -> ModelRow | None:
        """The highlighted row."""
        return None if self.highlighted is None else self._at[self.highlighted]

    def show(self, rows: Sequence[ModelRow], looking: bool) -> None:
        """Show these rows; `looking` is True while there may be more."""
        self._rows, self._looking = rows, looking
        self._fill()

    def point_at(self, name: str) -> None:
        """Highlight the model of that name, as soon as it is in the list."""
        self._kept = (name, False)
        self._highlight()

    def move(self, action: str) -> None:
        """Do `cursor_up`, `cursor_down`, `page_up` or `page_down`."""
        getattr(self, f"action_{action}")()
        if self.row:
            self._kept = _key(self.row)

    def on_resize(self) -> None:
        """Show as many columns as fit now."""
        self._fill()

    def _fill(self) -> None:
        width = self.scrollable_content_region.width
        options = list(self._lines_of(width)) if width > 0 else []
        self._at = [row for row, _ in options]
        self.set_options(option for _, option in options)
        self._highlight()

    def _highlight(self) -> None:
        places = {_key(row): place for place, row in reversed(list(enumerate(self._at))) if row}
        self.highlighted = places.get(self._kept, self._first())
        self.post_message(self.Pointed(self.row))

    def _first(self) -> int | None:
        """The first model here that can chat, or else the first row; no model to pull while there may be more rows."""
        rows = [(place, row) for place, row in enumerate(self._at) if row and not (row.offered and self._looking)]
        able = (place for place, row in rows if row.chats and not (row.offered or row.problem))
        return next(able, rows[0][0] if rows else None)

    def _lines_of(self, width: int) -> Iterator[tuple[ModelRow | None, Option]]:
        for number, (title, columns, rows) in enumerate(self._sections(width)):
            if number:
                yield None, Option("", disabled=True)
            yield None, Option(heading(title, columns, width), disabled=True)
            for row in rows:
                yield row, Option(row_line(row, columns, width, row.name == self._current and not row.offered))

    def _sections(self, width: int) -> Iterator[tuple[str, TableColumns, list[ModelRow]]]:
        here = [row for row in self._rows if not row.offered and not row.problem]
        if here or self._looking:
            yield "looking for models …" if self._looking else self._title, HERE, here
        if to_pull := [row for row in self._rows if row.offered]:
            yield "to pull from Hugging Face", offered(to_pull, width), to_pull
        if bad := [row for row in self._rows if row.problem]:
            yield "cannot be opened", broken(width), bad

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self.post_message(self.Pointed(self.row))

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if self.row:
            self._kept = _key(self.row)
            self.post_message(self.Chosen(self.row))


def _key(row: ModelRow) -> tuple[str | None, bool]:
    return row.name, row.offered
