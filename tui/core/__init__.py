"""The chat without a screen: conversations, the worker that calls the model, settings, the store."""
