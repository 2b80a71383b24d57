"""Checks of the measure, of validity, of searches and of hand-overs."""
