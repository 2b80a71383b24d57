"""`python -m danshari`."""

from danshari.cli import main

main()
