"""Lines in, bytes out, nothing blocks."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator

import pytest

from stoker.runner.stream import Stream


class Peer:
    """Both ends of a connection, ours in a Stream."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        ours, self.theirs = socket.socketpair()
        self.lines: list[bytes] = []
        self.closed = 0
        self.stream = Stream(ours, self.selector, self.lines.append, self.on_close)

    def on_close(self) -> None:
        self.closed += 1

    def turn(self) -> None:
        for key, mask in self.selector.select(0):
            key.data(mask)


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.stream.close()
    made.theirs.close()
    made.selector.close()


def test_lines_are_put_together(peer: Peer) -> None:
    for piece in (b"o", b"ne\ntw", b"o\n\nth"):
        peer.theirs.sendall(piece)
        peer.turn()
    assert peer.lines == [b"one", b"two", b""]


def test_what_the_peer_does_not_read_waits(peer: Peer) -> None:
    sent = b"x" * 3_000_000
    peer.stream.send(sent)
    peer.stream.send(b"end")
    peer.stream.offer(b"left out")
    got = b""
    while len(got) < len(sent) + 3:
        peer.turn()
        got += peer.theirs.recv(1 << 20)
    assert got == sent + b"end"
    peer.turn()
    peer.stream.offer(b"welcome")
    assert peer.theirs.recv(100) == b"welcome"


def test_the_end_comes_once_and_sending_afterwards_is_harmless(peer: Peer) -> None:
    peer.theirs.close()
    peer.turn()
    peer.stream.send(b"x")
    peer.stream.close()
    assert peer.closed == 1
