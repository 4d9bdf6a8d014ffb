"""A program that writes to a store of chats until it is stopped: `python chat_writer.py FILE [CHAT [REPLIES]]`.

It stores replies that grow, in a chat of its own or in CHAT, and prints after each change what is saved:
the id of a message and how many words it has.
"""

import sys
from dataclasses import replace
from pathlib import Path

from tui.core.store import Store


def main(path: str, chat: str = "", replies: str = "1000000") -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    store = Store(Path(path))
    place = int(chat) if chat else store.new_chat("written", None, None)
    last = None
    for _ in range(int(replies)):
        reply = store.add(place, last, "assistant", "")
        store.show(place, reply.id)
        for count in range(1, 30):
            store.update(replace(reply, text="word " * count))
            print(reply.id, count, flush=True)
        last = reply.id
    store.close()


main(*sys.argv[1:])
