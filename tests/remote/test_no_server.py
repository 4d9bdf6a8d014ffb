"""Addresses where no such server answers."""

import socket
import threading

import pytest

from edgellm.remote.address import server_address
from edgellm.remote.failures import ServerError
from edgellm.remote.model import RemoteServer
from support.fake_api import TIMEOUT_S


def test_no_server() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ServerError, match=f"no server answers at {host}"):
        RemoteServer(server_address(f"http://{host}")).models()


def test_a_server_that_is_not_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            for _ in range(2):
                connection, _address = listening.accept()
                connection.recv(65_536)
                connection.sendall(b"220 mail.example ESMTP\r\n")
                connection.close()

        threading.Thread(target=answer, daemon=True).start()
        host = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(ServerError, match=r"ended the connection, or is no HTTP server"):
            RemoteServer(server_address(f"http://{host}")).models()
        with pytest.raises(ServerError, match=r"is it https or http\?"):
            RemoteServer(server_address(f"https://{host}")).models()


def test_a_list_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.remote.client.LISTING_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        gone = threading.Event()

        def trickle() -> None:
            connection, _address = listening.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
                for _ in range(TIMEOUT_S * 100):
                    try:
                        connection.sendall(b" ")
                    except OSError:
                        gone.set()
                        return
                    gone.wait(0.01)

        threading.Thread(target=trickle, daemon=True).start()
        host = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(ServerError, match="did not list its models in"):
            RemoteServer(server_address(f"http://{host}")).models()
        assert gone.wait(TIMEOUT_S)


@pytest.mark.parametrize("host", ["999.1.1.1:1", "[::1]x:80", "[v1.x]:80"])
def test_what_is_no_host(host: str) -> None:
    with pytest.raises(ServerError, match="is no host of a server"):
        RemoteServer(server_address(f"http://{host}")).models()
