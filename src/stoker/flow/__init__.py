"""The life of a task, one file per step.

submit → queue (hold, release, edit, move, requeue) → place → launch → watch → stop → finish;
`again` hands a task over once more, `remove` deletes it, `recover` knows everything again after a
restart; `loop` calls them in an order one can read aloud. Every step loads, decides (pure code
elsewhere), and records with a guard before it acts; acts are idempotent, so a step that dies may
be repeated. What memory knows follows the records in one place: `follow`.
"""
