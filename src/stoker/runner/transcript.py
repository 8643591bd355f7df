"""What the last lines of a failed part's output say about the cause.

Pure: the tail of the output in, (reason, detail) out, None when it tells nothing. The last telling
line wins; an unrelated exception after it takes its meaning away (a program may survive a full
GPU and fail an hour later of something else), unless the two are chained or the later one only
reports the death of a child. Patterns follow real transcripts: see the tests before changing one.
"""

from __future__ import annotations

import re
from typing import List, Optional, Pattern, Set, Tuple

Found = Optional[Tuple[str, str]]
Patterns = List[Tuple[str, Pattern[str]]]


def _patterns(*table: Tuple[str, str]) -> Patterns:
    """Reason and pattern; a group in it is the detail. The first match in a line counts."""
    return [(reason, re.compile(pattern)) for reason, pattern in table]


_RAISED = r"^(?:[\w.]+\.)?"
_PATH = r"(?:: ['\"](.+?)['\"])?"
_ASKED = (
    r".*?(?:[Tt]ried|[Tt]rying|[Uu]nable|Failed) to allocate (?:request for )?"
    r"([\d.]+ ?(?:[KMGT]i?B|bytes))"
)
_AMOUNT = f"(?:{_ASKED})?"
_EXHAUSTED = _patterns(
    ("gpu_memory", r"(?:CUDA|HIP|MPS backend) out of memory" + _AMOUNT),
    ("gpu_memory", r"\b(?:torch(?:\.cuda)?|c10|cupy\.cuda\.memory)(?:\.|::)OutOfMemoryError" + _AMOUNT),
    ("gpu_memory", r"CUDA (?:driver |runtime )?error: out of memory|CUDA_ERROR_OUT_OF_MEMORY"),
    ("gpu_memory", r"\bcudaErrorMemoryAllocation\b|CU(?:DNN|BLAS)_STATUS_ALLOC_FAILED"),
    ("gpu_memory", r"Cuda failure (?:2 )?'out of memory'"),
    ("gpu_memory", r"RESOURCE_EXHAUSTED: " + _ASKED),
    ("gpu_memory", r"RESOURCE_EXHAUSTED: .*(?:\bOOM\b|[Oo]ut of memory)|\bOOM when allocating tensor"),
    ("disk_quota", r"(?:Disk quota exceeded|\bEDQUOT\b)" + _PATH),
    ("disk_full", r"(?:No space left on device|\bENOSPC\b)" + _PATH),
    ("host_memory", r"std::bad_alloc|DefaultCPUAllocator: can't allocate memory" + _AMOUNT),
    ("host_memory", _RAISED + r"_?(?:Array)?MemoryError\b" + _AMOUNT),
    ("host_memory", r"Cannot allocate memory(?:$|: ')"),
)  # fmt: skip

_CR = r"(?:\r|\\r|\^M)"
_WINDOWS = _patterns(
    ("windows_line_ends", r"([^\s:'‘`$]*)" + _CR + r"['’]*: (?:(?:command )?not found|bad interpreter|No such file|\[Errno 2\]|invalid option)"),
    ("windows_line_ends", r"command not found: (\S*?)" + _CR),
    ("windows_line_ends", r"syntax error.*" + _CR),
    ("windows_line_ends", r"Illegal option -$"),
)  # fmt: skip

_TELLING = [
    *_EXHAUSTED,
    *_WINDOWS,
    *_patterns(
        ("module_missing", _RAISED + r"(?:ModuleNotFound|Import)Error: No module named '?([\w.-]+)"),
        ("module_missing", r"^\S*python[\d.]*: (?:Error while .*)?No module named '?([\w.-]+)"),
        ("file_missing", r"^\S*python[\d.]*: can't open file ['\"](.+?)['\"]: \[Errno 2\]"),
        ("file_missing", _RAISED + r"FileNotFoundError: \[Errno 2\] No such file or directory" + _PATH),
        ("permission_denied", _RAISED + r"PermissionError: \[Errno (?:1|13)\] [\w ]+" + _PATH),
        # torchrun ends the healthy ranks with SIGTERM: that is never the cause.
        ("killed_by_signal", r"^ +traceback : Signal \d+ \((SIG(?!TERM)\w+)\) received by PID"),
        ("killed_by_signal", _RAISED + r"CalledProcessError: .* died with <Signals\.(SIG\w+):"),
        ("killed_by_signal", _RAISED + r"ProcessExitedException: .* terminated with signal (SIG\w+)"),
    ),
]  # fmt: skip

_NAMED = r"(?:^|[:'‘ ])([^:'‘’ ]+)['’]?: "
_NOT_FOUND = _patterns(
    ("interpreter_missing", r": (\S+): bad interpreter: "),
    ("interpreter_missing", r": (\S+): cannot execute: required file not found$"),
    ("command_not_found", r"(?:command not found|no such file or directory|Unknown command): (.+)$"),
    ("command_not_found", r"(?:^|: )([^:]+): (?:command )?not found$"),
    ("command_not_found", _NAMED + r"No such file or directory$"),
)  # fmt: skip
_NOT_ALLOWED = _patterns(
    ("interpreter_missing", r": (\S+): bad interpreter: No such file"),
    ("start_failed", r"(?:^|: )([^:]+: (?:cannot execute binary file: )?[Ee]xec format error)$"),
    ("not_executable", r"permission denied: (.+)$"),
    ("not_executable", _NAMED + r"(?:Permission denied|Is a directory)$"),
)  # fmt: skip
_AT_THE_END = _patterns(
    ("command_not_found", r"command not found: (.+)$"),
    ("command_not_found", r": ([^:]+): command not found$"),
    ("command_not_found", r"^\S+: \d+: ([^:]+): not found$"),
    ("permission_denied", r"permission denied: (.+)$"),
    ("permission_denied", _NAMED + r"Permission denied$"),
)

_ANY_EXCEPTION = re.compile(_RAISED + r"[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit)(?::|$)")
_CHAIN = re.compile(r"^(?:During handling of|The above exception was the direct cause)")
# Exceptions that only say that somebody else failed.
_MESSENGER = re.compile(
    r"ChildFailedError|CalledProcessError|ProcessExitedException|ProcessRaisedException|NCCL"
    r"|DataLoader worker|BrokenProcessPool|TerminatedWorkerError|RayTaskError|SystemExit"
)
_RANK = re.compile(r"^\[rank\d+\]: ?")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What a progress bar wrote over; not the CR of a script's line in a shell's complaint about it.
_WRITTEN_OVER = re.compile(r"^.*\r(?![:'’])")
_LONGEST = 2000


def exhaustion(tail: bytes) -> Found:
    """What ran out: GPU memory, memory, disk space, quota."""
    return _last_telling(_lines(tail), _EXHAUSTED)


def cause(tail: bytes) -> Found:
    """Anything telling in the output of a part that ended by itself, with a code."""
    lines = _lines(tail)
    found = _last_telling(lines, _TELLING)
    if found is not None:
        return found
    # Words that would say nothing with more output after them: a script goes on.
    last = [line for line in lines if line.strip()][-1:]
    return _last_telling(last, _AT_THE_END)


def shell_cause(code: int, tail: bytes) -> Found:
    """126 and 127 are a shell's (or env's) own codes for "cannot run" and "not found"."""
    patterns = _NOT_FOUND if code == 127 else _NOT_ALLOWED
    return _last_telling(_lines(tail), [*_WINDOWS, *patterns])


def _last_telling(lines: List[str], patterns: Patterns) -> Found:
    """From the end: the first line that says why, unless another exception came after it."""
    overtaken: Set[str] = set()
    for whole in reversed(lines):
        rank = _RANK.match(whole)
        who = rank.group(0) if rank else ""
        line = whole[len(who) :]
        found = _telling(line, patterns)
        if found is not None:
            return None if who in overtaken else found
        if _CHAIN.match(line):
            overtaken.discard(who)
        elif _ANY_EXCEPTION.match(line) and not _MESSENGER.search(line):
            overtaken.add(who)
    return None


def _telling(line: str, patterns: Patterns) -> Found:
    for reason, pattern in patterns:
        match = pattern.search(line)
        if match is not None:
            return reason, next((group.strip() for group in match.groups() if group), "")
    return None


def _lines(tail: bytes) -> List[str]:
    """Lines as a person would see them: no colours, no overwritten progress bars."""
    lines = []
    for raw in tail.split(b"\n"):
        line = _COLOUR.sub("", raw[-2 * _LONGEST :].decode("utf-8", "replace"))
        line = line[:-1] if line.endswith("\r") else line
        lines.append(_WRITTEN_OVER.sub("", line)[:_LONGEST])
    return lines
