"""The routes of OpenAI's API. (https://platform.openai.com/docs/api-reference)

chat          /v1/chat/completions; `messages`: its conversations; `replies`: what both streams and whole replies need
completions   /v1/completions
responses     /v1/responses; `response_reading`: its fields; `response_objects`: its answers and events
listing       /v1/models, and /v1/embeddings, which is refused
choices       answers with several replies: of /v1/chat/completions and /v1/completions
sampling      the fields that set options of edgellm; `errors`: errors as OpenAI has them
"""
