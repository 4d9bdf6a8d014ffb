"""`edgellm batch`: a file of requests in OpenAI's batch format, answered offline, many at once.

requests      a line of the input as a request
input_file    the input, line by line: a file, or stdin
job           what is to be done: the requests, their order, and the identifiers of their answers
fingerprint   what tells model files apart
answers       from a request to the line that answers it
at_once       many requests at once with one model
journal       the answers so far, on disk: a run that was killed goes on there
output_file   from the journal to the output
run           from a job to its output; `figures`: what it took
cluster       the same on several machines, through Ray Data; `worker`: what runs on each; `vllm_model`: vLLM there
"""
