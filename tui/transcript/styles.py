"""The styles that text is rendered with, from the theme."""

from dataclasses import dataclass, fields

from rich.style import Style
from textual.widget import Widget


@dataclass(frozen=True)
class TranscriptStyles:
    """One style per thing shown; each is the component class `transcript--NAME` of the widget's style sheet."""

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
        """Without any colour."""
        return cls(**{field.name: Style.null() for field in fields(cls)})

    @classmethod
    def of(cls, widget: Widget) -> "TranscriptStyles":
        """The palette of a widget as its theme is now."""
        return cls(**{field.name: _style(widget, _component(field.name)) for field in fields(cls)})


def _component(name: str) -> str:
    return "transcript--" + name.replace("_", "-")


COMPONENTS = {_component(field.name) for field in fields(TranscriptStyles)}


def _style(widget: Widget, component: str) -> Style:
    """Colours as they come out over the background, which itself is left to the widget where no rule sets one."""
    rules = widget.get_component_styles(component)
    whole = widget.get_component_rich_style(component)
    own = Style(
        color=whole.color if rules.has_rule("color") else None,
        bgcolor=whole.bgcolor if rules.has_rule("background") else None,
    )
    return own + rules.text_style
