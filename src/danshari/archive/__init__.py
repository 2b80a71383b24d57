"""离: what left the view stays one call away, byte for byte."""

from danshari.archive.base import Archive, Entry, Filters, Passage
from danshari.archive.in_memory import MemoryArchive

__all__ = ["Archive", "Entry", "Filters", "MemoryArchive", "Passage"]
