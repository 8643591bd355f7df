"""English: what is said of queues, teams and quotas. Same keys as zh_queues.py (a test says so).

Part of en.py.
"""

from __future__ import annotations

TEXTS: dict[str, str] = {
    # ---- why it waits
    "quota_team": "The members of team {team} may hold {most} GPUs together; {held} are held, and this needs {need}.",
    # ---- handing over
    "over_quota": "{owner} may hold {most} GPUs at the same time, and this needs {need}: it could never start.",
    "over_quota.hint": "Ask for fewer, or ask an admin for more: stoker quota set {owner} {need}",
    "over_quota_team": "The members of team {team} may hold {most} GPUs together, and this needs {need}: it could never start.",
    "over_quota_team.hint": "Ask for fewer, or ask an admin for more: stoker quota set --team {team} {need}",
    "over_queue_cards": "Tasks of queue {queue} may hold {most} GPUs together, and this needs {need}: it could never start.",
    "over_queue_cards.hint": "Ask for fewer, or take another queue: stoker queue ls",
    "over_queue_cards_each": "A person may hold {most} GPUs through queue {queue}, and this needs {need}: it could never start.",
    "over_queue_cards_each.hint": "Ask for fewer, or take another queue: stoker queue ls",
    "queue_not_yours": "queue {queue} is for others; you may use: {have}.",
    "queue_not_yours.hint": "Take one of these, or ask an admin to let you in.",
    "queue_full": "{waiting} tasks of one person wait in queue {queue} and {more} more would be too many: {most} may.",
    "queue_full.hint": "Try again when some have started, or take another queue: stoker queue ls",
    "too_many_waiting": "{waiting} tasks of one person wait and {more} more would be too many: {most} may.",
    "too_many_waiting.hint": "Try again when some have started, or cancel some.",
    # ---- queues and teams themselves
    "bad_name": "`{value}` cannot be a name: up to 64 letters, digits and - _ . with a letter or digit first.",
    "limits_contradict": "tasks that say nothing would get {default:time}, and {longest:time} is the longest.",
    "no_such_queue": "There is no queue {queue}.",
    "no_such_queue.hint": "See which there are: stoker queue ls",
    "queue_exists": "There is a queue {queue} already.",
    "queue_exists.hint": "To change it: stoker queue edit {queue}",
    "default_queue": "Queue {queue} stays: tasks that name no queue go there.",
    "default_queue.hint": "What it allows can be changed: stoker queue edit {queue}",
    "queue_in_config": "Queue {queue} is written down in config.toml.",
    "queue_in_config.hint": "Take it out there and start the server again; what it allows can be changed: stoker queue edit {queue}",
    "queue_has_waiting": "{count} tasks wait in queue {queue}.",
    "queue_has_waiting.hint": "Move them: stoker queue rm {queue} --move-to default",
    "same_queue": "they wait in {queue} already.",
    "cannot_move": "Task {task} may not wait in queue {queue} ({code}); nothing was changed.",
    "cannot_move.hint": "Choose another queue. Why: stoker edit {task} --queue {queue}",
    "no_such_team": "There is no team {team}.",
    "no_such_team.hint": "Make it first: stoker team add {team}",
    "team_exists": "There is a team {team} already.",
    "team_exists.hint": "To change it: stoker team edit {team}",
    "team_in_queues": "Team {team} may use queue {queues}, which would be open to others without it.",
    "team_in_queues.hint": "First say who may use that: stoker queue edit",
    "not_in_team": "{name} is not in team {team}.",
    "unknown_person": "There is no person {name}.",
    "unknown_person.hint": "See who there is: stoker user ls",
    "stale_entry": "{name} was changed after you looked.",
    "stale_entry.hint": "Look again, then repeat.",
    "too_many_names": "too many: {count}, at most {most}.",
}
