"""The screen of the conversation."""
