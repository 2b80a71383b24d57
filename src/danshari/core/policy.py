"""All options as one immutable value.

Presets are files under `data/policies`; the texts of the fields also feed the reference and the
CLI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args, get_origin, get_type_hints

from danshari.errors import PolicyError

CommitMode = Literal["always", "gain", "cold", "trigger"]
ArgumentsMode = Literal["all", "written", "replaced", "none"]
ThinkingMode = Literal["strip", "hint", "keep"]
EstimateMode = Literal["literal", "family"]
CompactedShape = Literal["state", "seed"]
RequestMode = Literal["warm", "flat"]


def _option(default: Any, text: str) -> Any:
    """Declare one option with its default and the text that explains it."""
    return field(default=default, metadata={"text": text})


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How the context of one session is kept: what may change, when changes are committed, what is protected."""

    name: str = _option("balanced", "the preset's name, or your own")
    passes: tuple[str, ...] = _option(
        ("admit", "superseded", "elide", "summarize", "evict"), "passes in use, gentlest first"
    )
    commit: CommitMode = _option(
        "gain",
        "always: every round; gain: when it pays; cold: after the cache expired; trigger: over the soft line only",
    )
    keep_rounds: int = _option(3, "newest rounds with tool calls that stay whole")
    keep_files: int = _option(2, "files most recently touched whose views stay whole")
    max_length: int = _option(600, "characters; shorter results and arguments are left alone")
    keep_evidence: float = _option(
        0.5, "share of an old result's characters that stays if it is evidence (failures, files changed since)"
    )
    keep_process: float = _option(
        0.3, "likewise for process: reads and output of the way there; 0 leaves a placeholder"
    )
    keep_transient: float = _option(
        0.1, "likewise for transient: hits, listings, pages, and what a later result overtook; 0 leaves a placeholder"
    )
    squeeze_over: int = _option(
        1500, "characters; old results below become placeholders, longer ones keep telling lines"
    )
    arguments: ArgumentsMode = _option(
        "replaced",
        "old call arguments that may go: all, text that is on disk by now (written), replaced plans (replaced), none",
    )
    admit_over: int = _option(
        2500, "characters; command output, listings and search hits above are squeezed at first sight; 0: never"
    )
    admit_keep: int = _option(1500, "characters of telling lines that first sight keeps")
    admit_read: int = _option(
        15_000,
        "characters; a read of a file above is squeezed at first sight to its likeliest lines; 0: never",
    )
    admit_share: float = _option(
        0.2, "share kept of what goes beyond `admit_read`, beside four fifths of `admit_read` itself"
    )
    admit_again: int = _option(
        200,
        "characters; runs of lines that an earlier read still shows are not shown again from this length on; 0: never",
    )
    number_every: int = _option(
        10,
        "lines that share one line number in what danshari writes, and in reads at first sight; 1: each keeps its own",
    )
    scorer: bool = _option(True, "whether learned weights choose the lines that stay; otherwise plain rules do")
    admit_any: int = _option(
        100_000,
        "characters; any result above, reads too, is squeezed at first sight (never more than a quarter of the window)",
    )
    protected: tuple[str, ...] = _option(("Skill",), "tools (globs, any case) whose calls and results no pass touches")
    pinned: tuple[str, ...] = _option((), "texts; an item that contains one is never touched")
    placeholder: Literal["seed", "full"] = _option("full", "seed: the four fields; full: recall id and gist too")
    margin: float = _option(0.2, "an edit that frees less than this share of an item is not made")
    factor: float = _option(2.0, "a batch must earn this many times its cost")
    cooldown: int = _option(8, "rounds between two commits, pressure aside")
    density: float = _option(
        0.3, "share of new lines in the newest rounds below which proposals are weighed at once; 0: never (seed 3)"
    )
    density_rounds: int = _option(3, "newest rounds that density, repeats and the forecast look at")
    on_phase: bool = _option(True, "whether a change to repair or verify is a reason to weigh")
    horizon: int = _option(
        8, "least number of rounds that are expected to follow; the rounds already seen count if more"
    )
    fault: float = _option(0.01, "chance that one edited item is needed again; a fault costs one extra round")
    purse: float = _option(0.05, "a commit may at worst leave the session this share dearer than doing nothing")
    least: int = _option(1500, "tokens a batch must free")
    token_trigger: int = _option(0, "tokens; soft line as an absolute number; 0: use `evaluate`")
    evaluate: float = _option(0.7, "soft line, as a share of the active budget")
    active: float = _option(0.625, "active budget, as a share of the window (80K of 128K in the seed)")
    reserve: float = _option(
        0.125, "kept free for the answer, as a share of the window, at most the model's output limit"
    )
    release: float = _option(0.25, "share of the active budget that a forced commit frees beyond the line it crossed")
    major: float = _option(
        0.9,
        "share of the usable window (window less reserve) above which a major compaction follows where the gentler "
        "passes do not help enough; 0: the soft line",
    )
    shape: CompactedShape = _option(
        "state",
        "after a major compaction: state: head, hand-over and newest rounds; seed: system and one summary message",
    )
    keep_tail: float = _option(0.15, "newest whole rounds kept beside the hand-over, as a share of the active budget")
    handover: int = _option(
        16_000,
        "characters of a hand-over, the user's words and rules aside; beyond 2,500 never more than a fifth of what it "
        "replaces",
    )
    restore: int = _option(12_000, "characters of files shown as last seen, inside the hand-over; 0: none")
    language: str = _option("", "language of the hand-over (en, zh, …); empty: that of the user's words")
    mask_secrets: bool = _option(
        True, "mask keys and tokens in what danshari writes into a hand-over or sends to a summarizer"
    )
    mask_archive: bool = _option(
        False,
        "mask keys and tokens in originals before they are archived, and in what edits write; such originals are no "
        "longer byte for byte",
    )
    recall_length: int = _option(8_000, "characters that one recall shows at most")
    recall_restore: int = _option(3, "recalls of one item after which it is shown whole again at its place; 0: never")
    summary_model: str = _option("", "model named in summary requests; empty: the agent's own")
    summary_prompt: str = _option("", "a sentence added to the summary prompt")
    summary_effort: str = _option("", "reasoning effort asked of the summarizer; empty: its default")
    summary_tokens: int = _option(4_000, "tokens a summarizer may answer with")
    summary_seconds: float = _option(120.0, "seconds a summarizer may take for one answer")
    summary_request: RequestMode = _option(
        "warm", "warm: the agent's own request with the instruction last (cached); flat: the conversation as plain text"
    )
    tries: int = _option(2, "answers asked of a summarizer before the model-free hand-over is used")
    fallback: int = _option(10, "newest messages that stay where the seed's shape gets no summary from a model")
    chunks: int = _option(6, "pieces a conversation may be cut into where it does not fit the summarizer's window")
    background: bool = _option(
        False, "ask the summarizer in the background from the soft line on, and swap when it is ready"
    )
    thinking: ThinkingMode = _option(
        "strip",
        "bound thinking after an edit: strip: leave dead blocks out, edit only closed loops; "
        "hint: ask the provider to drop them; keep: no edit that would break one",
    )
    estimate: EstimateMode = _option(
        "family", "token estimate: literal: the seed's formula; family: fitted per tokenizer family"
    )
    waives: tuple[str, ...] = _option((), "promises this policy does not make")

    def share(self, tier: str) -> float:
        """Return the share of an old item's characters that its tier keeps (conclusions whole)."""
        shares = {"evidence": self.keep_evidence, "process": self.keep_process, "transient": self.keep_transient}
        return shares.get(tier, 1.0)

    def protects(self, name: str) -> bool:
        """Return whether a tool of this name is protected."""
        low = name.lower()
        return any(fnmatchcase(low, pattern.lower()) for pattern in self.protected)


_SHARE_FIELDS = {
    "major",
    "keep_tail",
    "keep_evidence",
    "keep_process",
    "keep_transient",
    "margin",
    "fault",
    "purse",
    "density",
    "evaluate",
    "active",
    "reserve",
    "release",
    "admit_share",
}


def policy_fields() -> dict[str, str]:
    """Return every option's name and what it does, in order."""
    return {f.name: str(f.metadata["text"]) for f in fields(Policy)}


def make_policy(values: Mapping[str, Any], *, base: Policy | None = None, where: str = "policy") -> Policy:
    """Build a policy from plain values; raises PolicyError naming the field, the value and what is allowed."""
    hints = get_type_hints(Policy)
    known = policy_fields()
    clean: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise PolicyError(f"{where}: unknown field {name!r}; known: {', '.join(known)}")
        clean[name] = _check_value(name, value, hints[name], where)
    return replace(base or Policy(), **clean)


def _check_value(name: str, value: Any, hint: Any, where: str) -> Any:
    """Return the value as the field's type takes it.

    Raises PolicyError if it is of another type, negative, a share above 1, or none of the allowed
    words.
    """
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise PolicyError(f"{where}: {name} = {value!r}; must be one of {', '.join(get_args(hint))}")
        return value
    if get_origin(hint) is tuple:
        if isinstance(value, str) or not all(isinstance(v, str) for v in value):
            raise PolicyError(f"{where}: {name} = {value!r}; must be a list of strings")
        return tuple(value)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is bool or isinstance(value, bool) or not isinstance(value, (int, float) if hint is float else hint):
        raise PolicyError(f"{where}: {name} = {value!r}; must be {hint.__name__}")
    if isinstance(value, (int, float)) and not value >= 0:
        raise PolicyError(f"{where}: {name} = {value!r}; must be a number, 0 or more")
    if name in _SHARE_FIELDS and value > 1:
        raise PolicyError(f"{where}: {name} = {value!r}; is a share, 0 to 1")
    if name == "name" and not value:
        raise PolicyError(f"{where}: name must not be empty")
    return value
