"""What a command sees, without running one."""

from __future__ import annotations

import pytest

from stoker.runner.account import Account
from stoker.runner.command import arguments, encoded
from stoker.runner.environ import environment
from stoker.runner.protocol import Incarnation, Launch

ANA = Account("ana", 1000, 1000, "/home/ana", "/bin/zsh")


def a_launch(**fields: object) -> Launch:
    values = {"argv": ["x"], **fields}
    return Launch("a", 0, 1, 1, Incarnation("b", "s"), "17", "box", "/", **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("base", "lang", "lc_all"),
    [
        ({}, "C.UTF-8", None),
        ({"LANG": "de_DE"}, "C.UTF-8", None),
        ({"LANG": "de_DE.UTF-8"}, "de_DE.UTF-8", None),
        ({"LANG": "en_US.utf8", "LC_ALL": "C"}, "en_US.utf8", "C"),
        ({"LC_ALL": "C"}, "C.UTF-8", None),
        ({"LC_ALL": "zh_CN.UTF-8"}, None, "zh_CN.UTF-8"),
    ],
)
def test_the_locale_can_say_everything(
    base: dict[str, str], lang: str | None, lc_all: str | None
) -> None:
    env = environment(a_launch(), ANA, base, is_own=True)
    assert (env.get("LANG"), env.get("LC_ALL")) == (lang, lc_all)


def test_another_accounts_command_gets_nothing_of_the_runners_own() -> None:
    base = {"PATH": "/root/bin", "LD_LIBRARY_PATH": "/root/lib", "TMPDIR": "/root/tmp", "TZ": "UTC"}
    env = environment(a_launch(), ANA, base, is_own=False)
    assert "/root" not in "".join(env.values())
    assert env["TZ"] == "UTC"
    assert environment(a_launch(), ANA, base, is_own=True)["PATH"] == "/root/bin"


@pytest.mark.parametrize(
    ("shell", "used"),
    [("/bin/zsh", "/bin/zsh"), ("/usr/bin/fish", "/bin/sh"), ("/sbin/nologin", "/bin/sh")],
)
def test_a_line_goes_to_a_posix_shell(shell: str, used: str) -> None:
    account = Account("ana", 1000, 1000, "/home/ana", shell)
    assert arguments(a_launch(argv=[], shell="a; b"), account) == (
        [used.encode(), b"-c", b"a; b"],
        None,
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#!/bin/bash\nx", [b"/bin/bash"]),
        ("#! /usr/bin/env  python3 -u \nx", [b"/usr/bin/env", b"python3 -u"]),
        ("#!/bin/sh", [b"/bin/sh"]),
    ],
)
def test_a_script_names_its_interpreter_as_for_the_kernel(text: str, words: list[bytes]) -> None:
    assert arguments(a_launch(argv=[], shell=text), ANA) == (words, text.encode())


def test_a_nul_byte_is_refused() -> None:
    with pytest.raises(OSError, match="NUL"):
        encoded("a\0b")
