"""Processes of ours for libraries that end the process they are in when something goes wrong.

child    such a process as its parent sees it: asked and answered, stopped, and buried with its last words
caller   the threads that talk to it
spawn    how it is started, how it ended, what it said last
serve    the same from within
wire     what goes through the pipes between the two
"""
