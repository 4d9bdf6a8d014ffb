"""The input box: what is typed, pasted and attached, completed and recalled, and sent."""

from tui.composer.attachment import Attachment
from tui.composer.completion import CompletionItem
from tui.composer.composer import Composer

__all__ = ["Attachment", "CompletionItem", "Composer"]
