"""What the lab has decided that is no queue and no person: one field per setting, changed live.

Declared once: `stoker settings`, the API, the reference and the stored value come from `Rules`.
0 means no limit where a limit is meant. A secret is kept sealed and never shown.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from .errors import InvalidSpec

MOST = 10**9
"""Of a count or of seconds; more can be meant by nobody, and calculated with by nothing."""
MOST_LINE = 500
"""Characters of what everybody is shown."""
_NOT_PLAIN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def about(text: str, *, secret: bool = False, **bounds: Any) -> Meta:
    """`bounds` are msgspec's."""
    return Meta(description=text, extra={"secret": secret}, **bounds)


class Rules(Struct, frozen=True, kw_only=True):
    policy: Annotated[
        Literal["balance", "fifo", "fairshare"],
        about("Who goes first: balance (smallest running share), fifo, or fairshare"),
    ] = "balance"
    gpu_slots: Annotated[
        int, about("Exclusive tasks that may use one GPU side by side", ge=1, le=64)
    ] = 1
    urgent_each: Annotated[
        int, about("Unfinished urgent tasks that a person may have", ge=0, le=1000)
    ] = 1
    keep_idle_s: Annotated[
        int, about("Longest time that GPUs are kept idle for one task, in seconds", ge=0, le=MOST)
    ] = 2 * 3600
    patient_s: Annotated[
        int,
        about("A task that has waited so many seconds may keep GPUs without bound", ge=0, le=MOST),
    ] = 24 * 3600
    half_life_s: Annotated[
        int, about("With fairshare: past use counts half after so many seconds", ge=3600, le=MOST)
    ] = 7 * 24 * 3600
    reuse_any: Annotated[
        bool, about("Mode reuse also takes GPUs that another person holds exclusively")
    ] = False
    keep_days: Annotated[
        int, about("Finished tasks are deleted after so many days; 0 = never", ge=0, le=36_500)
    ] = 0
    keep_tasks: Annotated[
        int, about("Only so many finished tasks are kept; 0 = any number", ge=0, le=10**12)
    ] = 0
    waiting_long_s: Annotated[
        int, about("Who has a task that waits so many seconds is told; 0 = never", ge=0, le=MOST)
    ] = 24 * 3600
    others_see: Annotated[
        Literal["all", "queue", "nothing"],
        about("What people see of others' tasks: all, queue (names and resources) or nothing"),
    ] = "queue"
    most_waiting_each: Annotated[
        int, about("Tasks of one person that may wait; 0 = any number", ge=0, le=MOST)
    ] = 0
    submits_per_s: Annotated[
        int, about("Submit calls per second and person, in the long run; 0 = any", ge=0, le=MOST)
    ] = 0
    submits_burst: Annotated[
        int, about("Submit calls of one person that may come at once", ge=1, le=MOST)
    ] = 500
    streams_each: Annotated[
        int, about("Live streams that one person may have open; 0 = any number", ge=0, le=MOST)
    ] = 0
    spec_bytes: Annotated[
        int, about("Largest task that may be handed over, in bytes of JSON; 0 = any", ge=0, le=MOST)
    ] = 0
    disk_full_percent: Annotated[
        int,
        about(
            "No new tasks while the server's disk is fuller than that, in percent; 0 = any",
            ge=0,
            le=100,
        ),
    ] = 0
    notice_services: Annotated[
        str, about("Services of apprise over which people may be told, separated by commas")
    ] = (
        "json,jsons,form,forms,feishu,lark,dingtalk,wecombot,slack,discord,tgram,gchat,workflows,"
        "mmost,mmosts,rocket,rockets,ntfy,ntfys,gotify,gotifys,bark,barks,schan,pushplus"
    )
    notice_hosts: Annotated[
        str,
        about(
            "Hosts that notices may go to although they are this machine or link-local, "
            "separated by commas"
        ),
    ] = ""
    notices_per_hour: Annotated[
        int,
        about("Notices that one person gets in an hour; the rest as one; 0 = any", ge=0, le=MOST),
    ] = 30


LAB = Rules(
    most_waiting_each=5000,
    submits_per_s=50,
    streams_each=64,
    spec_bytes=64 << 10,
    disk_full_percent=95,
)
"""Where several people share one Stoker."""


class Announcement(Struct, frozen=True, kw_only=True):
    """What everybody is shown."""

    text: str
    by: str
    at: datetime


class Pause(Struct, frozen=True, kw_only=True):
    """Nothing new starts; what runs goes on."""

    by: str
    at: datetime
    why: str = ""


class NodeNote(Struct, frozen=True, kw_only=True):
    """What the lab says of a node."""

    name: str
    labels: tuple[str, ...] = ()


def one_line(text: str, *, field: str) -> str:
    """What everybody is shown, without blanks around it. InvalidSpec for what a terminal or a log
    would act on, a line break among it, and for what is too long."""
    line = text.strip()
    if len(line) > MOST_LINE:
        raise InvalidSpec("too_long", field=field, most=MOST_LINE)
    if _NOT_PLAIN.search(line):
        raise InvalidSpec("not_one_line", field=field)
    return line
