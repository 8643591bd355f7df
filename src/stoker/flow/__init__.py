"""The life of a task, one file per step.

submit → queue → place → launch → watch → stop → finish; `recover` after a restart; `loop` calls
them in an order one can read aloud. Every step loads, decides (pure code elsewhere), and records
with a guard before it acts; acts are idempotent, so a step that dies may be repeated.
"""
