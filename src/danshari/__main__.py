"""Entry point of `python -m danshari`."""

from danshari.cli import main

main()
