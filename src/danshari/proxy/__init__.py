"""The HTTP proxy: it compacts the requests of any agent whose base URL points at it.

Needs the extra `proxy`. The library itself imports nothing from here.
"""
