"""English sentences about people and their accounts; part of `en.TEXTS`."""

from __future__ import annotations

TEXTS = {
    "person_exists": "There is a person {name} already.",
    "person_exists.hint": "Choose another name, or change the one there is: stoker user edit {name}",
    "stale_person": "{name} was changed after you looked.",
    "stale_person.hint": "Look again, then repeat.",
    "person_shut_out": "{name} is locked or expired, so a code would be of no use.",
    "person_shut_out.hint": "First: stoker user unlock {name}, or stoker user edit {name} --expires never",
    "bad_person_name": "`{value}` cannot be a name: it begins with a small letter or _, and goes on with small letters, digits and _ . - up to 32 characters.",
    "bad_node_name": "`{value}` cannot be the name of a node.",
    "bad_account": "`{value}` cannot be a unix account.",
    "account_taken": "The unix account {account} is {person}'s: each could read and stop the other's tasks.",
    "account_taken.hint": "Name another account, or say that they share it: --share-account",
    "last_admin": "{name} is the last admin who can log in: nobody could undo it.",
    "last_admin.hint": "First make somebody else an admin: stoker user role NAME admin",
    "has_tasks": "{name} has tasks that have not ended: {waiting} waiting, {running} running.",
    "has_tasks.hint": "To cancel them too: stoker user rm {name} --tasks cancel",
    "system_password": "{name} logs in with the system's password; there is none to set here.",
    "system_password.hint": "Change it on the system, or first: stoker user edit {name} --login own",
}
