"""Which session a request belongs to, and what the proxy keeps of it."""
