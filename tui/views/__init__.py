"""Screens over the conversation, and settings of the whole program: themes, keys, the command palette.

view           the base of the screens: settings, inspector, help, log
settings       made of setting_row and choice_field
inspector      shows prompt_tokens
lines          a widget for any number of lines; wrapped makes them from styled text
keymap         all key bindings, and the config file that changes them
palette        all commands and keys, found by typing
themes         the colours
"""
