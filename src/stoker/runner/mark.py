"""One bit per launch number: set = forgotten or revoked, so that it can never begin (again).

The runner alone sets bits; supervisors read theirs after their claim. The file is preallocated
ahead of the numbers in use, so that a full disk cannot prevent a revocation. No fsync: a reboot
makes another incarnation, and orders for the old one are refused.
"""

from __future__ import annotations

import os

_NAME = "mark"
_BLOCK = 65536


class Mark:
    """The runner's side: bits are read and set."""

    def __init__(self, dir_fd: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(_NAME, flags, 0o600, dir_fd=dir_fd)
        self._size = os.fstat(self._fd).st_size
        self.cover(0)

    def cover(self, number: int) -> None:
        """Make room for the bit of `number`. Raises OSError when there is none."""
        needed = number // 8 + 1
        if needed > self._size:
            size = -(-needed // _BLOCK) * _BLOCK
            os.posix_fallocate(self._fd, self._size, size - self._size)
            self._size = size

    def is_set(self, number: int) -> bool:
        """Whether `number` was forgotten or revoked."""
        return _bit(os.pread(self._fd, 1, number // 8), number)

    def set(self, number: int) -> None:
        """From here on no supervisor that claims under `number` goes on."""
        self.cover(number)
        place = number // 8
        byte = os.pread(self._fd, 1, place)[0]
        os.pwrite(self._fd, bytes([byte | 1 << number % 8]), place)

    def highest(self) -> int:
        """The highest number whose bit is set; 0 = none."""
        end = self._size
        while end > 0:
            start = max(0, end - _BLOCK)
            block = os.pread(self._fd, end - start, start).rstrip(b"\0")
            if block:
                return (start + len(block) - 1) * 8 + block[-1].bit_length() - 1
            end = start
        return 0


def is_set(dir_fd: int, number: int) -> bool:
    """The supervisors' side. Raises OSError without the file: then nothing may begin."""
    fd = os.open(_NAME, os.O_RDONLY | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        return _bit(os.pread(fd, 1, number // 8), number)
    finally:
        os.close(fd)


def _bit(byte: bytes, number: int) -> bool:
    return bool(byte and byte[0] >> number % 8 & 1)
