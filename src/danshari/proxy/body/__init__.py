"""Request bodies read and rewritten as bytes."""
