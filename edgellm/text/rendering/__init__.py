"""Chat templates rendered in a process of their own.

A template comes with a model file and is as untrusted as the rest of it. So it is compiled and rendered in a child
process with limits on CPU time and memory, which is started once and kept.

renderer   asks the child, and starts it again where it ended
child      the child as its parent sees it
watcher    kills it when a request takes more than it may
limits     how much that is, and how the child has its system enforce it
codes      what the two say to each other beside JSON
serve      the child from within, with few imports, as nobody should wait for its start
sandbox    the Jinja2 environment of one template
origins    text that knows where each of its characters comes from
formats    the same for what `%`, `str.format` and `tojson` make
"""
