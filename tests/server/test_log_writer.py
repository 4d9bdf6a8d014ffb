"""The log of a server: nobody waits for it."""

from threading import Event

from edgellm.server.log_writer import MOST_WAITING, LogWriter
from support.served import TIMEOUT_S


def test_lines_come_in_their_order() -> None:
    written = list[str]()
    log = LogWriter(written.append)
    for number in range(100):
        log(str(number))
    assert log.close() and written == [str(number) for number in range(100)]


def test_lines_that_cannot_be_written_are_counted() -> None:
    written, begun, stalled = list[str](), Event(), Event()

    def write(line: str) -> None:
        begun.set()
        assert stalled.wait(TIMEOUT_S)
        written.append(line)

    log = LogWriter(write)
    log("first")
    assert begun.wait(TIMEOUT_S)
    for _ in range(MOST_WAITING + 3):  # which would wait for ever
        log("line")
    stalled.set()
    assert log.close()
    assert len(written) == MOST_WAITING + 2 and sum("3 lines of the log are left out" in line for line in written) == 1
