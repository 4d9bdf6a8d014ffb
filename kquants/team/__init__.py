"""How a team of threads works through a program: ops, their units, where threads meet, and how they wait."""
