"""The styles of the transcript, from the theme."""

from dataclasses import dataclass, fields

from rich.style import Style
from textual.widget import Widget


@dataclass(frozen=True)
class TranscriptStyles:
    """One style per element; each is the component class `transcript--NAME` in transcript.tcss."""

    user: Style
    assistant: Style
    system: Style
    tool: Style
    selected: Style
    muted: Style
    unseen: Style
    thinking: Style
    title: Style
    heading: Style
    subheading: Style
    link: Style
    quote: Style
    rule: Style
    marker: Style
    inline_code: Style
    code: Style
    label: Style
    keyword: Style
    name: Style
    type: Style
    string: Style
    number: Style
    comment: Style
    added: Style
    removed: Style

    @classmethod
    def plain(cls) -> "TranscriptStyles":
        """Styles without colours."""
        return cls(**{field.name: Style.null() for field in fields(cls)})

    @classmethod
    def of(cls, widget: Widget) -> "TranscriptStyles":
        """The styles of a widget in the current theme."""
        return cls(**{field.name: _style(widget, _component(field.name)) for field in fields(cls)})


def _component(name: str) -> str:
    return "transcript--" + name.replace("_", "-")


COMPONENTS = {_component(field.name) for field in fields(TranscriptStyles)}


def _style(widget: Widget, component: str) -> Style:
    """The style of a component; without a background unless a rule sets one, so that the widget's shows."""
    rules = widget.get_component_styles(component)
    whole = widget.get_component_rich_style(component)
    own = Style(
        color=whole.color if rules.has_rule("color") else None,
        bgcolor=whole.bgcolor if rules.has_rule("background") else None,
    )
    return own + rules.text_style
