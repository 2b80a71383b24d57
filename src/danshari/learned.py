"""The line scorer's weights in use: the user's own, else ours; none if they do not fit this version."""

from __future__ import annotations

import json
import logging
from functools import cache

from danshari import data
from danshari.core.weights import Weights, weights_from_dict
from danshari.errors import DanshariError
from danshari.passes.score import expected

_log = logging.getLogger("danshari")


@cache
def weights_in_use() -> Weights | None:
    """Load the weights; None where there are none or they are of another version: then plain rules choose lines."""
    try:
        written, where = data.scorer_text()
        return weights_from_dict(json.loads(written), expected(), where) if written else None
    except (ValueError, OSError, DanshariError) as error:
        _log.warning("the line scorer is not used: %s", error)
        return None
