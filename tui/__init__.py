"""The terminal chat: `core` without a screen, `app` and its widgets, and `plain` in lines."""
