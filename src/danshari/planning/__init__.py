"""Which edits are legal, and which of them pay."""
