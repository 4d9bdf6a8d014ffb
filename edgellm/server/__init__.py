"""`edgellm serve`: models over HTTP, in the dialects of OpenAI, ollama and Anthropic.

settings      how a server runs; `listen`: its socket; `run`: from both to the end, with signals
app           the routes; `guard`: Host, Origin and key; `access_log`: a line for each request
endpoint      one route: its body, its handler, its errors; `exchange`: one request and its answer
fields        the fields of a JSON body, checked; `json_text`: JSON read and written; `failures`: errors with a status
service       the work of requests: `slots` (how many at once), `loaded_models` (loaded, unloaded), `metrics`
answering     from work to its answer, in any dialect
work          what a request asks for, whatever the dialect; `generating`: its thread; `events`: what comes of it
chat_pool     conversations of a model that are kept cached
thoughts      replies in two parts, as they come
openai        routes under /v1; `ollama`: routes under /api; `anthropic`: /v1/messages
"""
