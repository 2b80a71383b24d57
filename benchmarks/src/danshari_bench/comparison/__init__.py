"""The comparison of contenders over recorded sessions."""
