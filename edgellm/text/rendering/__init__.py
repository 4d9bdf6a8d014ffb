"""Chat templates rendered in a process of their own.

A template comes with a model file and is as untrusted as the rest of it. So it is compiled and rendered in a child
process with limits on CPU time and memory, which is started once and kept.

renderer   the child as its parent sees it: started, asked, stopped, watched, started again
limits     how much one request may take, and how the child's system is told
serve      the child: requests in, replies out; of this project it imports this package and `edgellm.process.wire` alone
sandbox    the Jinja2 environment of one template
origins    text that knows where each of its characters comes from
formats    the same for what `%`, `str.format` and `tojson` make
"""
