"""Recorded sessions under a policy: what would have been sent, what it would have cost, what was still there."""
