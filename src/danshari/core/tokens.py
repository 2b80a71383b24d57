"""Token estimates without a tokenizer.

There are two formulas: the literal one (four characters a token, 1.5 for CJK), used by the
`literal` policy, and a linear estimate over 24 byte-class counts with one row of coefficients per
tokenizer family. The coefficients are data (`data/tokens.json`), fitted by `scripts/fit_tokens.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from danshari.core.text import lazy_pattern

TOKEN_FEATURES = (
    "a",
    "A",
    "0",
    "s",
    "n",
    "p",
    "L",
    "h",
    "sa",
    "sA",
    "pa",
    "pA",
    "aA",
    "ss",
    "pp",
    "ns",
    "nn",
    "0a",
    "a0",
    "p0",
    "s0",
    "AA",
    "sp",
    "np",
)
"""The counted byte classes and class pairs, in the order of a coefficient row."""


def _byte_class_table() -> bytes:
    """Return the translation table from each byte to its class: letter, digit, space, newline, other."""
    table = bytearray(b"p" * 256)
    for byte in range(256):
        char = chr(byte)
        if byte >= 0xC0:
            table[byte] = ord("L")
        elif byte >= 0x80:
            table[byte] = ord("h")
        elif "a" <= char <= "z":
            table[byte] = ord("a")
        elif "A" <= char <= "Z":
            table[byte] = ord("A")
        elif "0" <= char <= "9":
            table[byte] = ord("0")
        elif char in " \t":
            table[byte] = ord("s")
        elif char == "\n":
            table[byte] = ord("n")
    return bytes(table)


_BYTE_CLASSES = _byte_class_table()
_NEEDLES = tuple(name.encode() for name in TOKEN_FEATURES)
_CJK = lazy_pattern("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


def count_features(data: bytes) -> tuple[int, ...]:
    """Count the 24 byte classes and (non-overlapping) class pairs of UTF-8 `data`."""
    count = data.translate(_BYTE_CLASSES).count
    return tuple([count(needle) for needle in _NEEDLES])


def literal_tokens(text: str) -> float:
    """Return ASCII and other characters / 4 plus CJK characters / 1.5 (source: `seeds/micro_compact`)."""
    if text.isascii():
        return len(text) / 4
    wide = len(_CJK.findall(text))
    return wide / 1.5 + (len(text) - wide) / 4


ITEM_OVERHEAD = 4.0
"""Tokens that role and separators of one item cost (chat templates: 3 to 7)."""
EMOJI_EXTRA = 1.3
"""Tokens that a character beyond the basic plane costs more than the row says (o200k: 2.0 on average for 24 emoji)."""


DENSE_TOKENS = 0.72
"""Tokens of one character of base64: an estimate, the figure by which the public cases are counted."""
_DENSE_RUN = 512
_DENSE = lazy_pattern(r"[A-Za-z0-9+/_-]{512,}+={0,2}")


def _is_base64(run: str) -> bool:
    """Return whether a run is bytes as text: capitals, small letters and digits mixed, as no word or sequence is."""
    probe = run[:400]
    return any(map(str.isdigit, probe)) and any(map(str.isupper, probe)) and any(map(str.islower, probe))


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """Estimate tokens for one tokenizer family.

    The estimate is the sum over all features of count x coefficient, plus `EMOJI_EXTRA` tokens for
    every character beyond the basic plane. `row` holds the coefficients in the order of
    `TOKEN_FEATURES`; it is empty for the literal formula.
    """

    family: str
    row: tuple[float, ...] = ()
    call: float = 0.0
    """Tokens that one tool call costs beside its arguments (frame, name, id)."""

    def __call__(self, text: str) -> float:
        """Estimate the tokens of `text`; never negative, 0 for the empty string."""
        if not self.row:
            return literal_tokens(text)
        data = text.encode("utf-8", "surrogatepass")
        count = data.translate(_BYTE_CLASSES).count
        total = 0.0 if text.isascii() else EMOJI_EXTRA * data.count(b"\xf0")
        for needle, weight in self._nonzero_terms():
            total += weight * count(needle)
        return total

    def estimate_item(self, kind: str, text: str, weight: float = 0.0) -> float:
        """Return the tokens of one item: its text, `weight` and `ITEM_OVERHEAD`; long base64 in it by its own measure.

        `weight` is the tokens of what the text does not show; a tool call costs `call` tokens more.
        """
        return self(text) + self._dense_extra(text) + weight + ITEM_OVERHEAD + (self.call if kind == "call" else 0.0)

    def _dense_extra(self, text: str) -> float:
        """Return the tokens that long runs of base64 cost beyond what the formula gives them."""
        if len(text) < _DENSE_RUN:
            return 0.0
        extra = 0.0
        for found in _DENSE.finditer(text):
            run = found[0]
            if _is_base64(run):
                extra += max(DENSE_TOKENS * len(run) - self(run), 0.0)
        return extra

    def _nonzero_terms(self) -> tuple[tuple[bytes, float], ...]:
        """Return the (byte pattern, coefficient) pairs whose coefficient is not 0, cached by row."""
        terms = _TERMS_BY_ROW.get(self.row)
        if terms is None:
            terms = tuple((n, w) for n, w in zip(_NEEDLES, self.row, strict=True) if w)
            _TERMS_BY_ROW[self.row] = terms
        return terms


_TERMS_BY_ROW: dict[tuple[float, ...], tuple[tuple[bytes, float], ...]] = {}
LITERAL_ESTIMATOR = Estimator(family="literal")
