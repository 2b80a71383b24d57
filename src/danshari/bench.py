"""The former import path of the benchmarks, which are the distribution `danshari-bench` now.

`danshari.bench.cases` and `danshari.bench.compactions` are named in other people's commands, so they keep working.
"""

from danshari.errors import MissingExtra

try:
    import danshari_bench
except ImportError:
    raise MissingExtra("danshari-bench") from None

__path__ = danshari_bench.__path__
