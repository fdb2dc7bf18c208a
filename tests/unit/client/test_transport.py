"""How requests go out: as few pieces as there can be."""

import socket
from http.client import HTTPResponse

from omnigraph.client.transport import Connection

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def sent(body: bytes) -> list[bytes]:
    """The pieces in which a request with a body goes out: each send is a message here."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        connection = Connection("server")
        connection.sock = ours
        connection.request("POST", "/graphs", body, {"x-a": "b"})
        ours.shutdown(socket.SHUT_WR)
        pieces = []
        while piece := theirs.recv(1 << 20):
            pieces.append(piece)
        theirs.sendall(ANSWER)
        answer: HTTPResponse = connection.getresponse()
        assert answer.status == 200
    return pieces


def test_headers_and_a_small_body_are_one_piece() -> None:
    (whole,) = sent(b"{}")
    head, _, body = whole.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /graphs HTTP/1.1\r\n")
    assert b"Content-Length: 2" in head
    assert body == b"{}"


def test_a_large_body_is_not_copied_to_its_headers() -> None:
    pieces = sent(b"x" * 70_000)
    assert pieces[0].endswith(b"\r\n\r\n")
    assert b"".join(pieces[1:]) == b"x" * 70_000
