"""What things ARE. Pure: no I/O, no clock, no randomness."""
