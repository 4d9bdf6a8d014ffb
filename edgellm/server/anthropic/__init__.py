"""The route of Anthropic's API. (https://docs.anthropic.com/en/api/messages)

reading       the fields of /v1/messages
answers       its whole answers and its events
errors        errors as Anthropic has them
"""
