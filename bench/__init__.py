"""The figures of the design, each measured beside its yardstick: `python -m bench [FIGURE ...]`."""
