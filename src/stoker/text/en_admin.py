"""English: what is said about the lab itself: settings, pause, announcement, audit trail, server log.

Same keys as zh_admin.py (a test says so). `news.CODE` is a line of the server's log that everybody
may read.
"""

from __future__ import annotations

PHRASES: dict[str, str] = {
    # ---- what every command may say
    "heard.announcement": "Announcement: {text}",
    "heard.paused": "Scheduling is paused by {by} since {since}: nothing new starts, what runs goes on.",
    "heard.paused_why": "Scheduling is paused by {by} since {since} ({why}): nothing new starts, what runs goes on.",
    # ---- pause, announce
    "pause.on": "Scheduling is paused: nothing new starts. Running tasks go on, and new ones are taken and wait. `stoker pause --off` lets tasks start again.",
    "pause.off": "Tasks start again.",
    "pause.off_without_why": "--off needs no reason.",
    "announce.none": "There is no announcement.",
    "announce.cleared": "The announcement is cleared.",
    "announce.done": "Everybody is shown: {text}",
    "announce.shown": "{text}  ({by}, {at})",
    "announce.clear_without_text": "--clear needs no text.",
    # ---- settings
    "settings.name": "SETTING",
    "settings.value": "VALUE",
    "settings.from": "FROM",
    "settings.about": "MEANING",
    "settings.from_default": "default",
    "settings.from_file": "config.toml",
    "settings.from_changed": "changed, default {default}",
    "settings.relation": "What is changed here takes effect at once and wins over config.toml; `stoker settings unset NAME` goes back to it.",
    "settings.done": "{name}: {old} → {new} ({source})",
    "settings.same": "{name} is {value} already.",
    "settings.yes_or_no": "`{value}` is neither yes nor no.",
    "settings.no": "there is no such setting; `stoker settings ls` lists them.",
    "settings.no_near": "there is no such setting. Did you mean `{near}`?",
    # ---- audit
    "audit.number": "NO",
    "audit.at": "TIME",
    "audit.who": "WHO",
    "audit.act": "ACT",
    "audit.on": "ABOUT",
    "audit.from": "from {origin}",
    "audit.none": "No such acts.",
    "audit.sound": "All {count} acts follow one from another. Note the head, to ask about it later:\n{head}",
    "audit.broken": "The audit trail is broken at act {number}: it was changed, put in, or something before it was taken out. The {count} acts before it are sound.",
    "audit.head_there": "The head that you noted is act {number}: everything up to it is as it was.",
    "audit.head_gone": "No act has the head that you noted ({head}): the trail was cut or rewritten since, or it is of other records.",
    "audit.exists": "{path} is there already.",
    "audit.exported": "The audit trail is in {path}; `stoker audit verify --file` verifies it without a server.",
    "audit.not_a_trail": "line {line} of {path} is no act of an exported audit trail.",
    # ---- server log
    "serverlog.none": "Nothing has happened yet.",
    "news.submitted": "{person} submitted task {task} (GPUs: {gpus}).",
    "news.started": "Task {task} of {person} started on {node}.",
    "news.requeued": "Task {task} of {person} is back in line.",
    "news.ended": "Task {task} of {person} has ended: {outcome}.",
    "news.deleted": "Task {task} was deleted.",
    "news.node_up": "Node {node} is up (GPUs: {gpus}).",
    "news.node_down": "Node {node} is out of reach.",
    "news.node_drained": "{person} took node {node} out of use for new tasks.",
    "news.node_resumed": "{person} put node {node} back into use.",
    "news.node_failing": "Node {node} takes no new tasks: three launches in a row have failed there.",
    "news.paused": "{person} paused scheduling.",
    "news.paused.why": "{person} paused scheduling: {why}",
    "news.unpaused": "Scheduling goes on.",
    "news.announced": "{person} announced: {text}",
}
