"""How attempts RUN. `base` is the interface; `fleet` runs them through runners, `fake` in tests."""
