"""`edgellm serve`: models over HTTP, in the dialects of OpenAI, ollama and Anthropic.

settings      how a server runs; `listen`: its socket; `run`: from both to the end, with signals
app           the application: `routes`, `guard` (Host, Origin and key; `origins`), `access_log` with its `log_writer`
endpoint      one route: its body, its handler, its errors; `exchange`: one request and its answer
fields        the fields of a JSON body, checked; `failures`: errors with a status; `json_text`: JSON
service       the work of requests: `slots` (how many at once), `loaded_models` (loaded, unloaded), `metrics`
asked         what a body asks for, in any dialect; `answering`: from there to the answer
work          what a request asks for, whatever the dialect; `generating`: its threads; `events`: what comes of it
thoughts      replies in two parts, as they come; `blocks`: replies in parts one after the other
openai        routes under /v1; `ollama`: routes under /api; `anthropic`: /v1/messages
openapi       the description of all routes
"""
