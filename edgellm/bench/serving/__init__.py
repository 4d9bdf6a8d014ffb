"""`edgellm bench --serve` and `--clients`: latencies, goodput and costs of many requests at once.

options         the load: rates or clients, lengths, limits of latency
lengths         a length of tokens, or a range of them
traces          files with the lengths and times of requests
prompts         prompts of random tokens that begin alike
requests        the requests of a run, and when they arrive
generator       sends them: at the times of arrival, or whenever a client is free
target          what answers: local_target is a model in this process, server_target an OpenAI-compatible server
outcome         what came of a request, and when
figures         percentiles, throughput and goodput of a run
bend            the rate at which goodput bends, and the search for it
energy, cost    joules and prices of a run
comparison      two targets, round by round
setup           opens all that a benchmark needs
serving_bench   the runs, and the object that `--json` prints
"""
