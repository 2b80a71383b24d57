"""离 The archive: originals that left the view can be recalled, byte for byte."""

from danshari.archive.base import Archive, Entry, Filters, Passage
from danshari.archive.in_memory import MemoryArchive

__all__ = ["Archive", "Entry", "Filters", "MemoryArchive", "Passage"]
