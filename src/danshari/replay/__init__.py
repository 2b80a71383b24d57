"""Recorded sessions played again under a policy: what it would have cost, what the agent needed, what was in view."""
