"""The routes of ollama's API. (https://github.com/ollama/ollama/blob/main/docs/api.md)

chat          /api/chat and /api/generate
reading       the fields of both
lines         the lines of their answers
listing       /api/tags, /api/show, /api/ps, /api/version, and /api/embed, which is refused
errors        errors as ollama has them
"""
