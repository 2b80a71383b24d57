"""Requests, responses and headers as they cross the proxy."""
