"""离: what left the view stays one call away, byte for byte."""

from danshari.archive.base import Archive, Entry, MemoryArchive

__all__ = ["Archive", "Entry", "MemoryArchive"]
