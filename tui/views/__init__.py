"""Screens over the conversation, and what is chosen for the whole program: themes, keys, the command palette.

view       what these screens have in common ─▶ settings (rows), inspector (prompt), help, log
lines      a widget for any number of lines ◀─ wrapped: styled text to lines of a width
keymap     which keys there are, and the config file that gives others
palette    everything one can do, found by typing
"""
