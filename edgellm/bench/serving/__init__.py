"""`edgellm bench --serve` and `--clients`: latencies, goodput and costs of many requests at once.

options         the load: rates or clients, lengths, limits of latency
lengths         a length of tokens, or a range of them
prompts         prompts of random tokens that begin alike
requests        the requests of a run, and when they arrive
generator       sends them: an open loop at the times of arrival, or a closed loop of clients
local_target    what answers: a model in this process; server_target: an OpenAI-compatible server
outcome         when the pieces of a reply came
figures         percentiles, throughput and goodput of a run
"""
