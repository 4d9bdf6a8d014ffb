"""The keys of the conversation."""

from textual.binding import BindingType

from tui.binding import bind

BINDINGS: list[BindingType] = [
    bind("chat.stop", "escape", "stop", "Stop", "Stop the reply; its text so far stays"),
    bind("chat.back", "escape", "back", "Back", "Back to the input box; typing a letter does the same"),
    bind("chat.run_once", "f5", "answer('once')", "Run once", "Run the call that the model asks for, once"),
    bind(
        "chat.run_always",
        "shift+f5",
        "answer('always')",
        "Always",
        "Run it, and calls of this tool from now on without a question, until you leave",
    ),
    bind("chat.refuse", "escape", "answer('refuse')", "Refuse", "Do not run the call; the model is told"),
    bind("chat.new", "ctrl+n", "clear", "New chat", "Begin a new chat; this one stays in the list"),
    bind("chat.regenerate", "ctrl+r", "regenerate", "Again", "Another reply to your last message; the old one stays"),
    bind("chat.edit", "f2", "edit", "Edit", "Edit the marked message, or your last; the old one stays", show=False),
    bind(
        "chat.continue",
        "alt+g",
        "continue_reply",
        "Continue",
        "Edit a reply; the model goes on from its end",
        show=False,
    ),
    bind(
        "chat.find", "ctrl+f", "start_command('/find ')", "Find", "Find words in this chat", show=False, priority=True
    ),
    bind("chat.earlier", "alt+left", "walk(-1)", "Earlier version", "The version of a message before this", show=False),
    bind("chat.later", "alt+right", "walk(1)", "Later version", "The version of a message after this", show=False),
    bind("chat.select_before", "alt+up", "mark('previous')", "Mark above", "Mark the message above", show=False),
    bind("chat.select_after", "alt+down", "mark('next')", "Mark below", "Mark the message below", show=False),
    bind("chat.copy_code", "alt+c", "browse('copy_code')", "Copy code", "Copy the last code of the chat", show=False),
    bind("chat.copy_message", "alt+y", "browse('copy_message')", "Copy message", "Copy the last message", show=False),
    bind("chat.page_up", "pageup", "browse('page_up')", "Page up", "Scroll the conversation up", show=False),
    bind("chat.page_down", "pagedown", "browse('page_down')", "Page down", "Scroll the conversation down", show=False),
    bind("chat.top", "ctrl+home", "browse('scroll_home')", "Top", "To the beginning of the conversation", show=False),
    bind(
        "chat.end",
        "ctrl+end",
        "browse('scroll_end')",
        "End",
        "To the end of the conversation, and follow the reply",
        show=False,
    ),
    # The first key is shown at the bottom: Ctrl+B is tmux's own key.
    bind("chat.chats", "ctrl+l,ctrl+b", "chats", "Chats", "Show or hide the list of chats"),
    bind("chat.panel", "ctrl+t", "panel", "Figures", "Show or hide all figures; the mouse explains each"),
    bind("chat.models", "f3", "show('models')", "Models", "Choose a model, or download one"),
    bind("chat.settings", "f4", "show('settings')", "Settings", "How the model replies and is loaded"),
    bind("chat.leave", "ctrl+d", "leave", "Quit", "Leave, when nothing is typed; everything is saved", show=False),
    bind("chat.help", "f1", "show('help')", "Help", "This page"),
]
