"""The functional core: no I/O, no clock, no randomness; standard library only."""
