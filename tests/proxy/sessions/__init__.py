"""Which session a request belongs to: cases and a law."""
