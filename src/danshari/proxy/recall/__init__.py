"""Recall tools answered by the proxy itself, hidden from the client."""
