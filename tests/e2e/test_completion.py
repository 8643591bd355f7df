"""Tab in real shells: bash and zsh at a prompt in a pseudo-terminal, fish by `complete -C`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.helpers.pseudo_terminal import PseudoTerminal

from .conftest import Stoker, until

SHELLS = ("bash", "zsh", "fish")
PROMPT = "ready>"
TAB = "\t"


@pytest.fixture(scope="module")
def lab(stoker: Stoker) -> Stoker:
    """One task runs, one waits, one is held, one has ended."""
    (stoker.work / "train.sh").write_text("#!/bin/sh\n")
    (stoker.work / "results").mkdir()
    ended = stoker.submit("-n", "ended", "--", "true")
    stoker("wait", ended)
    running = stoker.submit("-n", "runs 训练", "-g", "4", "--", "sleep", "1000")
    until(lambda: stoker.task(running)["state"] == "RUNNING")
    stoker.submit("-n", "waits", "-g", "1", "--", "true")
    stoker.submit("-n", "is held", "--hold", "--", "true")
    return stoker


ENDED, RUNS, WAITS, HELD = "1", "2", "3", "4"


def environment(stoker: Stoker) -> dict[str, str]:
    """`stoker` on the PATH, as an installed one is."""
    folder = stoker.folder / "bin"
    if not folder.exists():
        folder.mkdir()
        program = folder / "stoker"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stoker "$@"\n')
        program.chmod(0o755)
    return stoker.env | {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(stoker.work)}


@pytest.fixture
def prompt(lab: Stoker, request: pytest.FixtureRequest) -> Iterator[PseudoTerminal]:
    """An interactive shell that has read our script."""
    shell = request.param
    env = environment(lab) | {"PS1": f"{PROMPT} ", "INPUTRC": "/dev/null", "HISTFILE": "/dev/null"}
    argv = {
        "bash": [str(shutil.which("bash")), "--norc", "--noprofile", "-i"],
        "zsh": [str(shutil.which("zsh")), "-f", "-i"],
    }[shell]
    made = PseudoTerminal(argv, env, lab.work, columns=110, rows=40)
    setup = {
        "bash": 'bind "set show-all-if-ambiguous on"; bind "set bell-style none"',
        "zsh": "autoload -Uz compinit; compinit -D -u; unsetopt beep",
    }[shell]
    made.until(PROMPT)
    made.press(f'{setup}; eval "$(stoker completion {shell})"; clear\r')
    made.until(lambda text: text.count(PROMPT) == 1 and "eval" not in text)
    yield made
    made.close()


both = pytest.mark.parametrize("prompt", ["bash", "zsh"], indirect=True)


def offered(prompt: PseudoTerminal, typed: str, expected: str) -> str:
    """What is on the screen once `expected` is, after the Tab key."""
    prompt.press(f"clear\r{typed}")
    seen = typed.rstrip()
    prompt.until(lambda text: text.startswith(PROMPT) and seen in text)
    prompt.press(TAB)
    prompt.until(lambda text: expected in text.replace(seen, "", 1))
    prompt.read(0.2)
    shown = prompt.text
    prompt.press("\x15")  # take the line back
    return shown


@both
def test_commands_options_and_tasks_at_a_prompt(prompt: PseudoTerminal) -> None:
    shown = offered(prompt, "stoker re", "resubmit")
    assert all(name in shown for name in ("release", "requeue", "reset", "resume"))
    assert "cancel" not in shown

    shown = offered(prompt, "stoker ls --", "--elements")
    assert "--json" in shown

    shown = offered(prompt, "stoker cancel ", WAITS)
    assert all(f"{id}" in shown.split() for id in (RUNS, WAITS, HELD))
    assert ENDED not in shown.split()


@both
def test_only_one_possibility_is_typed_out(prompt: PseudoTerminal) -> None:
    prompt.press(f"stoker release {TAB}")
    prompt.until(f"stoker release {HELD}")
    prompt.press(f"\x15stoker requeue {TAB}")
    prompt.until(f"stoker requeue {RUNS}")
    prompt.press(f"\x15stoker submit --mode=s{TAB}")
    prompt.until("--mode=shared")
    prompt.press(f"\x15stoker submit --after {RUNS}:n{TAB}")
    prompt.until(f"--after {RUNS}:notok")
    prompt.press(f"\x15stoker submit --queue {TAB}")
    prompt.until("--queue default")
    prompt.press(f"\x15stoker submit --workdir re{TAB}")
    prompt.until("--workdir results/")
    prompt.press(f"\x15stoker submit tr{TAB}")
    prompt.until("stoker submit train.sh")
    prompt.press(f"\x15stoker ls -s runn{TAB}")
    prompt.until("stoker ls -s running")


@both
def test_without_a_server_the_prompt_stays_clean(prompt: PseudoTerminal) -> None:
    prompt.press("export STOKER_HOME=/nowhere; clear\r")
    prompt.until(lambda text: text.strip() == PROMPT)
    prompt.press(f"stoker cancel {TAB}x")  # the x arrives when the Tab has been dealt with
    prompt.until("stoker cancel x")
    assert [line for line in prompt.lines if line] == [f"{PROMPT} stoker cancel x"]


def test_zsh_and_fish_say_what_a_task_is(lab: Stoker) -> None:
    found = fish(lab, "stoker cancel ")
    assert f"{RUNS}\trunning  runs 训练" in found
    assert f"{HELD}\theld  is held" in found
    assert [line.split("\t")[0] for line in found] == [HELD, WAITS, RUNS]


@pytest.mark.parametrize("prompt", ["zsh"], indirect=True)
def test_zsh_shows_the_state_and_the_title(prompt: PseudoTerminal) -> None:
    shown = offered(prompt, "stoker logs ", "ended")
    assert f"{RUNS}  -- running  runs 训练" in shown
    assert f"{ENDED}  -- succeeded  ended" in shown


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        ("stoker hold ", [WAITS]),
        ("stoker release ", [HELD]),
        ("stoker release --anyway ", [HELD, WAITS]),
        ("stoker delete ", [HELD, WAITS, ENDED]),
        ("stoker wait 2 ", [HELD, WAITS]),
        ("stoker submit --mode ", ["exclusive", "shared", "reuse"]),
        ("stoker submit --mode=re", ["--mode=reuse"]),
        ("stoker submit --after 3:", ["3:ok", "3:notok"]),
        ("stoker config ", ["show"]),
        ("stoker completion ", ["bash", "zsh", "fish"]),
        ("stoker move 3 --be", ["--before"]),
        ("stoker move 3 --before ", [HELD]),
        ("stoker edit 3 --unset gpu-m", ["gpu-model", "gpu-memory"]),
        ("stoker submit tr", ["train.sh"]),
        ("stoker submit -- cat tr", ["train.sh"]),
        ("stoker nonsense ", []),
        ("stoker cancel 1 --nonsense ", [HELD, WAITS, RUNS]),
    ],
)
def test_fish(lab: Stoker, typed: str, values: list[str]) -> None:
    assert [line.split("\t")[0] for line in fish(lab, typed)] == values


def test_nodes_are_offered_to_the_commands_that_can_use_them(lab: Stoker) -> None:
    name = lab.json("nodes")[0]["name"]
    for typed in ("stoker drain ", "stoker submit --node "):
        assert fish(lab, typed) == [f"{name}\t4 GPU"]
    assert fish(lab, "stoker resume ") == []


def fish(stoker: Stoker, typed: str) -> list[str]:
    """What fish would offer behind this line."""
    script = f"stoker completion fish | source; complete -C {typed!r}"
    done = subprocess.run(
        [str(shutil.which("fish")), "--no-config", "-c", script],
        env=environment(stoker),
        cwd=stoker.work,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_server_that_does_not_answer_is_not_waited_for(lab: Stoker, shell: str) -> None:
    """Somebody listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        words = ["stoker cancel "] if shell == "bash" else ["cancel", ""]
        begun = time.monotonic()
        done = lab("__complete", shell, *words, env={"STOKER_URL": url, "STOKER_TOKEN": "x"})
        assert (done.stdout, done.stderr) == ("", "")
        assert time.monotonic() - begun < 10  # the patience of a second, and a busy machine
