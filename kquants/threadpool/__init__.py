"""How a team of threads works through a program.

`interpreter` tells what ops and their units of work are, `jobs` how threads are given a program, and `waiting` how they
wait for each other.
"""
