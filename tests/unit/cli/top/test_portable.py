"""The view can be imported where there is no posix terminal."""

from __future__ import annotations

import subprocess
import sys


def test_no_posix_module_is_imported() -> None:
    code = (
        "import sys\n"
        "for name in ('fcntl', 'pwd', 'grp', 'termios', 'tty', 'pty', 'resource', 'curses'):\n"
        "    sys.modules[name] = None\n"
        "import stoker.cli.top, stoker.cli.top.loop, stoker.cli.top.console\n"
        "import stoker.cli.complete, stoker.cli.completion, stoker.cli.help, stoker.cli.headings\n"
        "import stoker.cli.top.terminal\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
