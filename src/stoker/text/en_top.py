"""English: what `stoker top` says. Same keys as zh_top.py (a test says so).

`top.why.CODE` is a wait reason in a few words, for a column; its sentence is in en.py.
"""

from __future__ import annotations

PHRASES: dict[str, str] = {
    "top.name": "Stoker",
    "top.counts": "{live} running, {waiting} waiting, {held} held",
    "top.id": "ID",
    "top.owner": "OWNER",
    "top.state": "STATE",
    "top.since": "SINCE",
    "top.gpus": "CARDS",
    "top.task": "TASK",
    "top.where": "NODE OR REASON",
    "top.no_tasks": "No tasks are waiting or running.",
    "top.more": "Only the first {count} are shown.",
    "top.more_nodes": "and {count} more nodes",
    "top.cards": "{held} of {all} cards held",
    "top.memory": "memory {held}/{all} GiB",
    "top.load": "load {load}",
    "top.foreign": "not ours: {who}",
    "top.kept": "kept for #{task}",
    "top.kept_unnamed": "kept for another person's task",
    "top.busy": "another person's task",
    "top.free": "free",
    "top.keys": "c cancel  h hold  l log  w why  ? help  q quit",
    "top.keys_panel": "q back  arrows and PageUp, PageDown scroll",
    "top.ask_cancel": "Cancel task {id} ({title})? y/n",
    "top.not_cancelled": "Task {id} goes on.",
    "top.held": "Task {id} is held; h lets it go.",
    "top.not_waiting": "Task {id} does not wait; only waiting tasks can be held.",
    "top.only_yours": "All tasks are yours.",
    "top.mine": "Only your tasks; a shows all.",
    "top.everybody": "Everybody's tasks.",
    "top.lost": "The server has not answered since {at}; trying again. Tasks go on.",
    "top.moment": "One moment ...",
    "top.title_why": "Why task {id} waits: {title}",
    "top.title_log": "Output of task {id}: {title}",
    "top.title_help": "Keys of stoker top",
    "top.help": (
        "  up, down, k, j        choose a task\n"
        "  PageUp, PageDown      a page further; Home, End the first, the last\n"
        "  c                     cancel the task; asks first\n"
        "  h                     hold a waiting task, release a held one\n"
        "  l, Enter              follow its output\n"
        "  w                     why it waits, and what would start it now\n"
        "  a                     only my tasks, or everybody's\n"
        "  q                     back, quit\n"
        "\n"
        "  A card that is kept for a task stays free until that task starts.\n"
        "  What is not ours was not started by Stoker; such a card is left alone."
    ),
    # ---- why it waits, in a few words
    "top.why.no_nodes": "no node yet",
    "top.why.node_down": "{node} out of reach",
    "top.why.node_drained": "{node} takes no new tasks",
    "top.why.gpus_busy": "needs {need} cards, {free} free",
    "top.why.gpu_ids_busy": "card {gpus} in use",
    "top.why.gpus_foreign": "needs {need} cards, {free} free; card {gpus} used by others",
    "top.why.gpus_kept": "cards kept for #{task}",
    "top.why.gpus_kept_unnamed": "cards kept for a task that goes first",
    "top.why.gpu_memory_busy": "needs {need:size} on a card, {free:size} free",
    "top.why.gpu_utilisation": "needs a card {need} % idle",
    "top.why.reuse_blocked": "needs {need} cards that can be reused, {free} there",
    "top.why.cpus_busy": "needs {need} CPU cores, {free} free",
    "top.why.memory_busy": "needs {need:size} memory, {free:size} free",
    "top.why.too_few_nodes": "needs {need} nodes, {fit} have room",
    "top.why.held": "held by a person",
    "top.why.next_moment": "starts in a moment",
    "top.why.all_started": "all have started",
    "top.why.after_pending": "after #{task}",
    "top.why.after_failed": "after #{task}, in vain ({outcome})",
    "top.why.after_deleted": "after #{task}, which was deleted",
    "top.why.not_before": "not before {at}",
    "top.why.backing_off": "tries again at {at}",
    "top.why.array_cap": "{live} of at most {cap} run",
    "top.why.quota_cards": "quota: {held} of {most} cards held",
    "top.why.quota_team": "team {team}: {held} of {most} cards held",
    "top.why.queue_cards": "queue {queue}: {held} of {most} cards held",
    "top.why.queue_cards_each": "queue {queue}: {held} of your {most} cards held",
    "top.why.behind_owner": "after a task of {owner}",
    "top.why.behind_unnamed": "after another person's task",
    "top.why.paused": "scheduling is paused",
}  # fmt: skip
