"""Fit and evaluate coefficient rows of `danshari.core.tokens` (development tool; needs numpy and scipy).

`fit` writes one non-negative row per tokenizer family from half of the files (by hash of the file
name), `report` prints the errors on the other half. Exact counts are cached in `--cache`, so a
second run takes seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np  # type: ignore[import-not-found, unused-ignore]
from scipy.optimize import nnls  # type: ignore[import-not-found, import-untyped, unused-ignore]

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
from danshari.core.tokens import TOKEN_FEATURES, count_features

Array: TypeAlias = Any  # numpy carries no types where it is not installed
CHUNK = 8192
SMALLEST_DOCUMENT, SMALLEST_CONTEXT, MOST_SHARED = 2048, 16384, 0.2
CONTEXTS_PER_FILE, PLAIN_PER_KIND, PLAIN_PER_FILE = 12, 120, 3
COPIES = {"chinese": 3}  # kinds that stand for more than their number of documents in a fit

TEXT_KEYS = frozenset(("arguments", "args", "code", "command", "content", "function", "input", "kwargs", "message"))
TEXT_KEYS |= {"observation", "output", "reasoning", "reasoning_content", "response", "results", "summary"}
TEXT_KEYS |= {"system_prompt", "text", "thinking", "thought", "tool_calls"}
ARGUMENT_KEYS = frozenset({"arguments", "args", "input", "kwargs"})
MESSAGE_KEYS = frozenset({"role", "message", "action", "observation"})
NOT_REPLIES = frozenset({"", "user", "human", "system", "developer", "tool", "toolresult", "environment", "ipython"})
NOISE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(data:\w+/[^,]{1,80},)?[A-Za-z0-9+/=_-]{512,}\s*")
SUFFIXES = {"code": "py c h js ts go rs java sh rb css", "json": "json jsonl", "prose": "md rst txt", "log": "log"}
KINDS = {f".{suffix}": kind for kind, suffixes in SUFFIXES.items() for suffix in suffixes.split()}
CJK = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")

# claude-new counts with 4.7: ctok gives 4.8 the same vocabulary and another message frame, which is left out
QUICKTOK = {"o200k": "o200k_base", "cl100k": "cl100k_base", "qwen3": "qwen3", "llama3": "llama3"}
CTOK = {"claude-old": "3.0", "claude-4.7": "4.7", "claude-new": "4.7"}


class Document(NamedTuple):
    """About 8 KB of text of one kind, as pieces."""

    kind: str
    test: bool
    pieces: list[str]


class Context(NamedTuple):
    """One message list: for each message whether the model wrote it, and its texts."""

    test: bool
    messages: list[tuple[bool, list[str]]]

    @property
    def texts(self) -> list[str]:
        """All texts in order."""
        return [text for _, texts in self.messages for text in texts]


class Corpus(NamedTuple):
    """Documents and contexts, with one row of features and of exact counts for each distinct piece of text."""

    documents: list[Document]
    contexts: list[Context]
    places: dict[str, int]
    features: Array
    counts: dict[str, Array]

    def sum_pieces(self, pieces: Iterable[str], family: str) -> tuple[Array, float]:
        """Return the summed features and exact counts; the count is NaN if a piece was not counted."""
        rows = [self.places[piece] for piece in pieces]
        return self.features[rows].sum(axis=0), float(self.counts[family][rows].sum())

    def stack_samples(self, family: str, groups: Iterable[Iterable[str]]) -> tuple[Array, Array]:
        """Return features and counts of groups of pieces, without groups that were not counted."""
        kept = [pair for pair in (self.sum_pieces(group, family) for group in groups) if pair[1] > 0]
        return np.array([x for x, _ in kept]).reshape(-1, len(TOKEN_FEATURES)), np.array([y for _, y in kept])


def is_held_out(name: str) -> bool:
    """Return whether a file belongs to the half used for evaluation only."""
    return bool(hashlib.sha256(name.encode()).digest()[0] & 1)


def split_text(text: str) -> Iterator[str]:
    """Cut a long text into pieces of at most `CHUNK` characters, at line ends where there are any."""
    while len(text) > CHUNK:
        cut = text.rfind("\n", CHUNK // 2, CHUNK) + 1 or CHUNK
        yield text[:cut]
        text = text[cut:]
    yield text


def message_strings(node: Any, key: str = "") -> Iterator[str]:
    """Yield message content, tool arguments and tool output below one message."""
    if isinstance(node, str) and node.strip() and not NOISE.fullmatch(node):
        yield node
    elif isinstance(node, dict) and key in ARGUMENT_KEYS:
        yield json.dumps(node, ensure_ascii=False)
    elif isinstance(node, dict):
        for name in filter(TEXT_KEYS.__contains__, node):
            yield from message_strings(node[name], name)
    elif isinstance(node, list):
        for item in node:
            yield from message_strings(item, key)


def is_reply(item: dict[str, Any]) -> bool:
    """Return whether the model wrote a message, as far as its format tells."""
    for place in (item.get("extra"), item.get("message"), item):
        for name in ("openclaw_role", "role"):
            if isinstance(place, dict) and isinstance(place.get(name), str):
                return place[name].lower() not in NOT_REPLIES
    return "action" in item and "observation" not in item


def message_lists(node: Any) -> Iterator[list[dict[str, Any]]]:
    """Yield every outermost list that consists of messages."""
    if isinstance(node, list):
        items = [item for item in node if isinstance(item, dict)]
        if len(items) > 1 and sum(not MESSAGE_KEYS.isdisjoint(item) for item in items) * 2 > len(node):
            yield items
            return
        for item in node:
            yield from message_lists(item)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name != "toolUseResult" and not (name == "trajectory" and "history" in node):
                yield from message_lists(value)


def read_json(path: Path) -> Iterator[Any]:
    """Read JSON, or the readable lines of JSON lines."""
    text = path.read_text("utf-8", "replace")
    with contextlib.suppress(ValueError):
        yield json.loads(text)
        return
    for line in text.split("\n"):
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def build_context(test: bool, items: Iterable[dict[str, Any]]) -> Context:
    """Return the context of a message list; a text that occurs twice is taken once."""
    context, seen = Context(test, []), set[str]()
    for item in items:
        texts: list[str] = []
        for raw in message_strings(item) if not item.get("isSidechain") else ():
            text = raw.encode("utf-8", "replace").decode("utf-8")  # tokenizers refuse lone surrogates
            if len(text) < 64 or text not in seen:
                seen.add(text)
                texts.extend(split_text(text))
        if texts:
            context.messages.append((is_reply(item), texts))
    return context


def files_under(folders: Iterable[Path]) -> list[Path]:
    """List the files below `folders` in an order that is stable and unrelated to their names."""
    files = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    return sorted(files, key=lambda path: hashlib.sha256(str(path).encode()).digest())


def read_contexts(folders: Iterable[Path]) -> list[Context]:
    """Read the message lists of all session files, about `CONTEXTS_PER_FILE` of a file at most, the fit half first."""
    contexts: list[Context] = []
    for path in files_under(folders):
        lists = list(message_lists(list(read_json(path))))
        some = lists[:: -(-len(lists) // CONTEXTS_PER_FILE) or 1]
        contexts.extend(build_context(is_held_out(path.name), items) for items in some)
    return sorted((context for context in contexts if context.messages), key=lambda context: context.test)


def select_contexts(contexts: list[Context]) -> list[Context]:
    """Return contexts above a minimum size; held-out ones only if little of their text is in the fit half."""
    fitted = {text for context in contexts if not context.test for text in context.texts if len(text) > 200}
    large = [context for context in contexts if sum(map(len, context.texts)) >= SMALLEST_CONTEXT]
    shared = [sum(len(text) for text in c.texts if text in fitted) / sum(map(len, c.texts)) for c in large]
    return [c for c, share in zip(large, shared, strict=True) if not c.test or share <= MOST_SHARED]


def session_documents(contexts: Iterable[Context]) -> list[Document]:
    """Return documents of about 8 KB: long texts alone, short ones joined, no text used twice."""
    documents, seen = list[Document](), set[str]()
    for context in contexts:
        groups: list[list[str]] = [[]]
        for text in dict.fromkeys(text for text in context.texts if text not in seen):
            seen.add(text)
            if len(text) > CHUNK // 2:
                groups.insert(0, [text])
            elif sum(map(len, groups[-1])) > CHUNK:
                groups.append([text])
            else:
                groups[-1].append(text)
        documents += [Document("session", context.test, g) for g in groups if sum(map(len, g)) >= SMALLEST_DOCUMENT]
    return documents


def plain_documents(folders: Iterable[Path]) -> list[Document]:
    """Sample documents of about 8 KB from ordinary files, evenly over kinds; logs are split by 64 KB block."""
    documents, counts = list[Document](), Counter[tuple[str, bool]]()
    for path in files_under(folders):
        kind = KINDS.get(path.suffix.lower(), "")
        text = path.read_text("utf-8", "replace")[: 1 << 20] if kind else ""
        wide = len(CJK.findall(text))
        if kind and wide * 10 > len(text):
            kind = "chinese" if text.count("的") * 100 > wide else ""  # else a table of characters
        limit = (None if kind in ("log", "chinese") else PLAIN_PER_FILE) if kind else 0
        for number, piece in enumerate(islice(split_text(text), limit)):
            test = is_held_out(f"{path.name}{number // 8 if kind == 'log' else ''}")
            if len(piece) >= SMALLEST_DOCUMENT and counts[kind, test] < PLAIN_PER_KIND:
                counts[kind, test] += 1
                documents.append(Document(kind, test, [piece]))
    return documents


def exact_counter(family: str) -> Callable[[str], int] | None:
    """Return the exact token counter of a family, or None (with a message) if its package is missing."""
    try:
        module: Any = importlib.import_module("quicktok" if family in QUICKTOK else "ctok")
    except ImportError as error:
        print(f"!! {family} SKIPPED ({error}): pip install quicktok-v1 ctok  # Python >= 3.12", file=sys.stderr)
        return None
    if family in QUICKTOK:
        encoding = module.get_encoding(QUICKTOK[family])
        return lambda text: len(encoding.encode_ordinary(text))
    version = CTOK[family]
    frame = module.token_count("a", version) - 1
    return lambda text: int(module.token_count(text, version)) - frame


def count_all(texts: Iterable[str], family: str, folder: Path, slow_bytes: int) -> Array:
    """Count `texts` exactly, from the cache where possible; NaN beyond the budget of the slow tokenizer."""
    exact = exact_counter(family)
    if exact is None:
        return None
    file = folder / f"{'ctok-' + CTOK[family] if family in CTOK else family}.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    keys = {hashlib.sha256(text.encode()).hexdigest()[:24]: text for text in texts}
    budget = slow_bytes if family in CTOK else sys.maxsize
    for key, text in keys.items():
        if key not in known and budget > 0:
            known[key], budget = exact(text), budget - len(text)
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(known))
    return np.array([known.get(key, np.nan) for key in keys], dtype=np.float64)


def load_corpus(options: argparse.Namespace) -> Corpus:
    """Read all texts and count them."""
    documents = plain_documents(options.plain) + session_documents(contexts := read_contexts(options.texts))
    contexts = select_contexts(contexts)
    texts = dict.fromkeys(text for document in documents for text in document.pieces)
    texts |= dict.fromkeys(text for context in contexts for text in context.texts)
    features = np.array([count_features(text.encode()) for text in texts], dtype=np.float64)
    counted = {name: count_all(texts, name, options.cache, options.slow_bytes) for name in (*QUICKTOK, *CTOK)}
    counts = {family: row for family, row in counted.items() if row is not None}
    return Corpus(documents, contexts, {text: number for number, text in enumerate(texts)}, features, counts)


def request_errors(corpus: Corpus, context: Context, row: Array, family: str) -> Iterator[float]:
    """Yield the relative error of each request: exact count of the previous one plus the estimated rest."""
    total, predicted, replied = 0.0, np.nan, False
    for reply, texts in context.messages:
        if reply and not replied:
            yield predicted / total - 1 if total else np.nan
            predicted = total
        features, count = corpus.sum_pieces(texts, family)
        total += count
        predicted += float(features @ row)
        replied = reply


def measure_errors(corpus: Corpus, family: str, row: Array) -> dict[str, Array]:
    """Return what is measured → relative errors of one row on the held-out half."""
    found: dict[str, Array] = {}
    documents = [document for document in corpus.documents if document.test]
    contexts = [context for context in corpus.contexts if context.test]
    kinds = sorted({d.kind for d in documents})
    groups = {f"document {kind}": [d.pieces for d in documents if d.kind == kind] for kind in kinds}
    groups["document all"] = [document.pieces for document in documents]
    groups["context raw"] = [context.texts for context in contexts]
    for what, pieces in groups.items():
        x, y = corpus.stack_samples(family, pieces)
        found[what] = x @ row / y - 1
    errors = np.array([error for context in contexts for error in request_errors(corpus, context, row, family)])
    found["request anchored"] = errors[~np.isnan(errors)]
    return {what: errors for what, errors in found.items() if len(errors)}


def report(corpus: Corpus, rows: dict[str, Array]) -> None:
    """Print signed mean, MAE, 95th percentile and n of every family on the held-out half."""
    print(f"{'family':11} {'what':17} {'mean':>6} {'MAE':>6} {'p95':>6} {'n':>5}")
    for family in (name for name in rows if name in corpus.counts):
        for what, errors in measure_errors(corpus, family, rows[family]).items():
            mean, mae, p95 = errors.mean(), np.abs(errors).mean(), np.quantile(np.abs(errors), 0.95)
            print(f"{family:11} {what:17} {mean:+6.1%} {mae:6.1%} {p95:6.1%} {len(errors):5}")


def fit(corpus: Corpus, options: argparse.Namespace) -> None:
    """Fit every counted family on the fit half and write the data file with its errors on the other half."""
    stored = json.loads(options.out.read_text()) if options.out.exists() else {}
    families = stored.get("families", {})
    groups = [d.pieces for d in corpus.documents if not d.test for _ in range(COPIES.get(d.kind, 1))]
    groups += [context.texts for context in corpus.contexts if not context.test]
    for family in corpus.counts:
        x, y = corpus.stack_samples(family, groups)
        row = np.round(nnls(x / y[:, None], np.ones(len(y)))[0], 4)  # relative errors: all sizes count alike
        size = np.abs(measure_errors(corpus, family, row)["document all"])
        mae, p95 = (round(float(value), 4) for value in (size.mean(), np.quantile(size, 0.95)))
        call = families.get(family, {}).get("call", 0)  # measured on reported usage, not fitted here
        families[family] = {"row": row.tolist(), "mae": mae, "p95": p95, "n_documents": len(size), "call": call}
    source = "half of the local agent sessions and ordinary files; mae, p95 on ~8 KB documents of the other half"
    head = {"format": 1, "features": list(TOKEN_FEATURES), "fitted": date.today().isoformat(), "source": source}
    head["call_source"] = stored.get("call_source", "")
    text = json.dumps(head | {"families": families}, indent=1)
    options.out.write_text(re.sub(r"\[[^\]]*\]", lambda match: json.dumps(json.loads(match[0])), text) + "\n")
    print(f"{options.out}: {', '.join(families)}")


def main() -> None:
    """Run `fit` or `report`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("verb", choices=("fit", "report"))
    parser.add_argument("--texts", type=Path, nargs="+", required=True, metavar="DIR", help="folders of sessions")
    parser.add_argument("--plain", type=Path, nargs="*", default=[], metavar="DIR", help="folders of ordinary files")
    parser.add_argument("--out", type=Path, default=Path("src/danshari/data/tokens.json"), help="the data file")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "fit", help="exact counts")
    parser.add_argument("--slow-bytes", type=int, default=40_000_000, help="most to count anew with ctok, per version")
    corpus = load_corpus(options := parser.parse_args())
    if options.verb == "fit":
        return fit(corpus, options)
    families = json.loads(options.out.read_text())["families"]
    return report(corpus, {name: np.array(family["row"]) for name, family in families.items()})


if __name__ == "__main__":
    main()
