"""Alembic's scripts. Never edited after a release; `stoker.store.migrate` runs them."""
