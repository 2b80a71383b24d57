"""Metrics, spans, figures of sessions and the status page."""
