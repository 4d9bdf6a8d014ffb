"""What the machine is doing while it does it: a status line, a panel, and the figures kept under a reply.

    numbers, bars     numbers and shares in words and blocks
    figures           the line under a reply
    parts, fit        what the status line says, and what of it fits ─▶ status_line
    entries, values   what the panel explains, and what it says      ─▶ panel (rows)

Each widget has one method, `show(reading, memory)`, to be called as often as one likes: only what changed is drawn.
"""
