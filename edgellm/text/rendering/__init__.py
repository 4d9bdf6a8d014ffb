"""Chat templates, rendered in a child process.

A template comes with a model file and is as untrusted as the rest of it. So it is compiled and rendered in a child
process with limits on CPU time and memory, which is started once and kept.

renderer      sends requests to the child, and restarts it when it has ended
child         the child process as its parent sees it
watchdog      kills the child when a request exceeds its limits
limits        the limits, and how the child has its system enforce them
codes         the codes of the child's messages, which are JSON otherwise
serve         the child's main loop; few imports, as starting it must be quick
sandbox       the Jinja2 environment of one template
tracked_text  a str that tracks the origin of each of its characters
formats       the same for the results of `%`, `str.format` and `tojson`
"""
