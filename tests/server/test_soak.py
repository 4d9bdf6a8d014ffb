"""Many clients for a long time: `EDGELLM_SOAK_S=1800 pytest -m exhaustive -n 0 -s tests/server/test_soak.py`.

Some cancel, some read slowly, some send nonsense. Greedy replies must have the text that they have alone, memory must
stay flat after the first fifth of the time, and no KV page may be in use at the end.
"""

import json
import os
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psutil
import pytest

from edgellm.builtin import PATH
from support.served import TIMEOUT_S, Served, served

CLIENTS = 16
SECONDS = float(os.environ.get("EDGELLM_SOAK_S", "60"))
GROWTH = 64 << 20
"""Bytes that the process may grow by after its warm-up; a page that leaks with each request takes more."""

WORDS = ["time", "river", "stone", "light", "house", "mother", "green", "seven", "winter", "music", "paper", "garden"]
BODIES = (b"", b"{", b"[1]", b'{"model": 3}', b"\xff\xfe", b'{"messages": [[]]}', b"[" * 9000)


def asked(number: int) -> dict[str, Any]:
    """A request, one of 40: many begin with the same words."""
    chosen = random.Random(number)
    text = " ".join([*WORDS * (number % 3 * 4), *chosen.choices(WORDS, k=chosen.randrange(1, 60))])
    return {
        "messages": [{"role": "user", "content": text}],
        "max_tokens": chosen.randrange(1, 60),
        "temperature": 0,
        "n": 2 if number % 7 == 0 else 1,
    }


class Client:
    """One client, which does something else each time; `done` counts what it did."""

    def __init__(self, server: Served, alone: dict[int, str], seed: int) -> None:
        self._server, self._alone, self._chosen = server, alone, random.Random(seed)
        self._http = httpx.Client(base_url=server.url, timeout=TIMEOUT_S)
        self.done = Counter[str]()

    def run(self, until: float) -> None:
        """Go on until a time."""
        ways = {self._whole: 5, self._stream: 5, self._slow: 1, self._leave: 4, self._vanish: 2, self._nonsense: 2}
        with self._http:
            while time.monotonic() < until:
                (way,) = self._chosen.choices(list(ways), list(ways.values()))
                number = self._chosen.randrange(len(self._alone))
                way(number)
                self.done[way.__name__] += 1

    def _whole(self, number: int) -> None:
        found = self._http.post("/v1/chat/completions", json=asked(number))
        if found.status_code == 429:
            self.done["refused"] += 1
            return
        assert found.status_code == 200, found.text
        for choice in found.json()["choices"]:
            self._compare(number, choice["message"]["content"])

    def _stream(self, number: int, pause: Callable[[], None] = lambda: None, lines: int = 10**9) -> None:
        """Read a stream, or no more than some lines of it."""
        text = ""
        with self._http.stream("POST", "/v1/chat/completions", json={**asked(number), "n": 1, "stream": True}) as found:
            if found.status_code == 429:
                self.done["refused"] += 1
                return
            for count, line in enumerate(found.iter_lines()):
                pause()
                if count >= lines:
                    return
                if line.startswith("data: {"):
                    text += json.loads(line[6:])["choices"][0]["delta"].get("content", "")
        self._compare(number, text)

    def _slow(self, number: int) -> None:
        self._stream(number, lambda: time.sleep(0.02))

    def _leave(self, number: int) -> None:
        self._stream(number, lines=self._chosen.randrange(1, 40))

    def _vanish(self, number: int) -> None:
        """Close the connection while the server computes, or before."""
        body = json.dumps(asked(number)).encode()
        sent = body[: self._chosen.randrange(len(body))] if self._chosen.random() < 0.3 else body
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self._server.port), timeout=TIMEOUT_S) as client:
            client.sendall(head.encode() + sent)
            time.sleep(self._chosen.random() / 5)

    def _nonsense(self, number: int) -> None:
        found = self._http.post("/v1/chat/completions", content=self._chosen.choice(BODIES))
        assert found.status_code == 400 and found.json()["error"]["message"]

    def _compare(self, number: int, text: str) -> None:
        assert text == self._alone[number], f"request {number} has another text than alone"
        self.done["compared"] += 1


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(PATH, parallel=8, max_queue=4) as found:
        yield found


@pytest.mark.exhaustive
@pytest.mark.timeout(SECONDS + 600)
def test_many_clients_for_a_long_time(server: Served) -> None:
    alone = {}
    for number in range(40):
        found = httpx.post(f"{server.url}/v1/chat/completions", json={**asked(number), "n": 1}, timeout=TIMEOUT_S)
        alone[number] = found.json()["choices"][0]["message"]["content"]
    began, memory = time.monotonic(), list[int]()
    clients = [Client(server, alone, seed) for seed in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        running = [pool.submit(client.run, began + SECONDS) for client in clients]
        while time.monotonic() < began + SECONDS and not any(each.done() for each in running):
            time.sleep(min(5.0, SECONDS / 20))
            server.log.clear()
            memory.append(psutil.Process().memory_info().rss)
        for each in running:
            each.result()
    server.wait_until_idle()
    (loaded,) = server.server.service.models.running()
    warm, last = max(memory[: len(memory) // 5 + 1]), max(memory[-len(memory) // 5 :])
    done = sum((client.done for client in clients), Counter[str]())
    print(f"\n{dict(done)}\nRSS warm {warm >> 20} MiB, at the end {last >> 20} MiB; {loaded.model.kv_stats}")
    assert loaded.users == 0 and loaded.model.kv_stats.used_pages == 0, "pages leak"
    assert last - warm < GROWTH, "memory grows"
    assert done["compared"] > 0
