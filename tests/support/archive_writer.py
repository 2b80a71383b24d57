"""A process that puts originals into an archive, and logs what was committed, until it is killed."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from danshari_bench.load.archive import make_test_entry

from danshari.archive.sqlite import SqliteArchive


def write_until_killed(path: str, told: str, first: int) -> None:
    """Put batches of five; log their digests after each commit."""
    archive = SqliteArchive(path)
    with Path(told).open("a", encoding="ascii", buffering=1) as log:
        for number in count(first, 5):
            batch = [make_test_entry(number + n) for n in range(5)]
            archive.put(batch)
            log.write("".join(f"{entry.digest}\n" for entry in batch))


if __name__ == "__main__":
    write_until_killed(sys.argv[1], sys.argv[2], int(sys.argv[3]))
