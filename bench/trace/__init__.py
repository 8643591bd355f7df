"""A load, real or made up, replayed through the scheduler in virtual time: `python -m bench.trace`."""
