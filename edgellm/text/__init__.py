"""Floor 4: text to tokens and back, chat templates, sampling."""
