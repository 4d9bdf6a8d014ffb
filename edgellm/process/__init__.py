"""Child processes, for libraries that end their process when something goes wrong.

child         a child process, as its parent sees it: called, stopped, ended
call_thread   the threads that write to it and read from it
exchange      what these threads do
spawn         how the process is started, how it ended, what it wrote to stderr
serve         the loop of the child process
group         process groups of their own, for programs of others
wire          the messages between the two
"""
