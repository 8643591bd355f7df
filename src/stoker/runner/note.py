"""One line for whoever runs this node, on stderr (a log file that the starter chose).

Never raises and never blocks on a missing reader: a full disk or a closed stderr must not stop a
launch. Nothing here is for users; what they should know travels in facts.
"""

from __future__ import annotations

import os
import time


def note(text: str) -> None:
    """Write one line, with the time and our process id."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    raw = f"{stamp} stoker runner[{os.getpid()}]: {text}\n".encode("utf-8", "backslashreplace")
    try:
        os.write(2, raw)
    except OSError:
        return  # nowhere left to say it
