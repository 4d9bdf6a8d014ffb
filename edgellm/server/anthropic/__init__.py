"""The route of Anthropic's API. (https://docs.anthropic.com/en/api/messages)

messages      /v1/messages
reading       its fields
answers       its whole answers and its events
errors        errors as Anthropic has them
"""
