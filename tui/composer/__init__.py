"""The input box.

composer           `Composer`: the widget; its keys are in bindings
message_form       what is in the box: text, attachments, the message being edited, recall of sent ones (history)
editor             the text area; paste cleans pasted text, terminal reads keys and pastes
attachment_bar     attachments above the text area; attachment is one of them
message_queue      messages that wait for the end of a reply, shown by queued_messages
popup              the list of completions; completion and paths make them
slash              tells commands from messages
"""

from tui.composer.attachment import Attachment
from tui.composer.completion import CompletionItem
from tui.composer.composer import Composer

__all__ = ["Attachment", "CompletionItem", "Composer"]
