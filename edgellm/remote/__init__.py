"""Models at a server that has OpenAI's API over HTTP: `edgellm serve`, vLLM, llama.cpp's server, ollama and others.

address        the address of a server, as a user gives it
key            the key of a server: where it comes from, and to whom it is sent
client         requests to a server; failures: what their errors mean for a user
listing        the models of a server
dialects       fields that servers have beyond OpenAI's API
requests       from options of edgellm to the body of a request; messages: the conversation in it
events         server-sent events: bytes in, the data of each event out
parts          what an event adds to a reply, checked; answer: the parts of a whole answer
calls, text    calls of tools and the text of a reply, which come in pieces
reply          a reply that is written by a server: open this first
figures        what is measured of it on this machine
model          a model of a server

A server is not trusted: answers are read within bounds, and checked before anything is done with them. Redirects are
not followed, so that neither the key nor a conversation goes to another host.
"""
