"""PAM through its C library: one question, one password. For a process that ends afterwards.

Our own service is `stoker`; where nobody has written /etc/pam.d/stoker, that of `login` counts, then
`other`. A module that asks for more than one secret (a second factor) gets no answer and refuses.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Tuple

SERVICES = ("stoker", "login", "other")
FOLDERS = ("/etc/pam.d", "/usr/lib/pam.d", "/lib/pam.d")

SUCCESS, PERM_DENIED, AUTH_ERR, USER_UNKNOWN, MAXTRIES = 0, 6, 7, 10, 11
NEW_AUTHTOK_REQD, ACCT_EXPIRED, AUTHTOK_EXPIRED = 12, 13, 27
_BUF_ERR, _CONV_ERR = 5, 19
_PROMPT_SECRET, _PROMPT = 1, 2
_SILENT, _NO_EMPTY_PASSWORD = 0x8000, 0x1


class _Message(ctypes.Structure):
    _fields_ = (("style", ctypes.c_int), ("text", ctypes.c_char_p))


class _Reply(ctypes.Structure):
    _fields_ = (("text", ctypes.c_void_p), ("code", ctypes.c_int))


_Talk = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int,
    ctypes.POINTER(ctypes.POINTER(_Message)),
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)


class _Conversation(ctypes.Structure):
    _fields_ = (("talk", _Talk), ("data", ctypes.c_void_p))


def service() -> str:
    """The one whose rules count here."""
    for name in SERVICES:
        if any(os.path.exists(os.path.join(folder, name)) for folder in FOLDERS):
            return name
    return SERVICES[-1]


def check(name: str, password: bytes) -> Tuple[int, int]:
    """PAM's two answers: is it the password, and may the account be used (0 when not asked).

    Raises OSError without PAM."""
    library = ctypes.CDLL("libpam.so.0")
    for function in (library.pam_authenticate, library.pam_acct_mgmt, library.pam_end):
        function.argtypes = (ctypes.c_void_p, ctypes.c_int)
    handle = ctypes.c_void_p()
    talk = _Talk(_Talker(name.encode("utf-8", "surrogateescape"), password).talk)
    conversation = _Conversation(talk, None)
    who = name.encode("utf-8", "surrogateescape")
    begun = library.pam_start(
        service().encode("ascii"), who, ctypes.byref(conversation), ctypes.byref(handle)
    )
    if begun != SUCCESS:
        raise OSError(f"PAM does not begin: {begun}")
    shown = int(library.pam_authenticate(handle, _SILENT | _NO_EMPTY_PASSWORD))
    usable = SUCCESS
    if shown == SUCCESS:
        usable = int(library.pam_acct_mgmt(handle, _SILENT | _NO_EMPTY_PASSWORD))
    library.pam_end(handle, shown or usable)
    return shown, usable


class _Talker:
    """Answers what modules ask: the password once, the name, nothing else."""

    def __init__(self, name: bytes, password: bytes) -> None:
        self._name = name
        self._password = password
        self._is_told = False
        self._libc = ctypes.CDLL(None)
        self._libc.calloc.restype = self._libc.strdup.restype = ctypes.c_void_p
        self._libc.calloc.argtypes = (ctypes.c_size_t, ctypes.c_size_t)

    def talk(self, count: int, messages: Any, replies: Any, _data: Any) -> int:
        """PAM frees the replies, and overwrites them before."""
        place = self._libc.calloc(count, ctypes.sizeof(_Reply))
        if not place:
            return _BUF_ERR
        answers = ctypes.cast(place, ctypes.POINTER(_Reply))
        for index in range(count):
            style = messages[index].contents.style
            if style == _PROMPT_SECRET and not self._is_told:
                self._is_told = True
                answers[index].text = self._libc.strdup(self._password)
            elif style == _PROMPT:
                answers[index].text = self._libc.strdup(self._name)
            elif style == _PROMPT_SECRET:
                return _CONV_ERR  # what was placed stays behind; this process ends now
        replies[0] = place
        return SUCCESS
