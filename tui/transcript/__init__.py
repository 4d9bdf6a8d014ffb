"""The conversation as one widget, which renders only what is visible.

view               `Transcript`: the widget; its keys are in bindings, what they copy in copying
viewport           scrolling, and following the end
virtual_list       all rows one below the other, of known or estimated height
virtual_row        the row of one entry; cache keeps rendered lines
entry_blocks       an entry as blocks; thinking splits a reply
streamed_markdown  a growing text as blocks: block_splitter splits it, autoclose closes open marks
blocks             the kinds of blocks, and how each is rendered: markdown, code, table, inline, maths
lines, strips      wrapped lines, and lines as strips of the screen
styles             the styles of all this, from the theme
"""

from tui.transcript.entry import TranscriptEntry
from tui.transcript.view import Transcript

__all__ = ["Transcript", "TranscriptEntry"]
