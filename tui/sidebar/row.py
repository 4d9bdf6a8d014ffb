"""The lines of a chat in the list."""

from datetime import datetime, timedelta

from textual.content import Content

from tui.core.display_names import display_name
from tui.core.store.records import ChatRow
from tui.core.titles import one_line


def row(chat: ChatRow, *, open: bool, now: datetime | None = None) -> Content:
    """The title, and below it the time of its last use and its model, or the text that was found."""
    used = when(chat.updated, now or datetime.now())
    about = chat.snippet or " · ".join(filter(None, (used, display_name(chat.model or "", 20))))
    title = Content.styled(one_line(chat.title) or "untitled", "bold" if open else "")
    return Content("\n").join([title, Content.styled(f"  {one_line(about, 28)}", "$foreground-muted")])


def when(seconds: float, now: datetime) -> str:
    """A time in words: the hour today, `yesterday`, the weekday within a week, or else the date."""
    then = datetime.fromtimestamp(seconds)
    days = (now.date() - then.date()) // timedelta(days=1)
    if days <= 0:
        return f"{then:%H:%M}"
    if days == 1:
        return "yesterday"
    return f"{then:%a}" if days < 7 else f"{then:%Y-%m-%d}"
