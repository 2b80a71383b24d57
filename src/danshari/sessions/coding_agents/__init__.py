"""Sessions as coding agents write them on a developer's machine."""
