"""Every knob in one immutable value. Presets are files under `data/policies`; field texts here feed docs and CLI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args, get_origin, get_type_hints

from danshari.errors import PolicyError

Commit = Literal["always", "gain", "cold", "trigger"]
Arguments = Literal["all", "written", "replaced", "none"]
Thinking = Literal["strip", "hint", "keep"]
Estimate = Literal["literal", "family"]
Shape = Literal["state", "seed"]
Request = Literal["warm", "flat"]


def _knob(default: Any, text: str) -> Any:
    return field(default=default, metadata={"text": text})


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How one session's context is kept: what may change, when a change is committed, what is never touched."""

    name: str = _knob("balanced", "the preset's name, or your own")
    passes: tuple[str, ...] = _knob(
        ("admit", "superseded", "elide", "summarize", "evict"), "passes in use, gentlest first"
    )
    commit: Commit = _knob(
        "gain",
        "always: every round; gain: when it pays; cold: after the cache expired; trigger: over the soft line only",
    )
    keep_rounds: int = _knob(3, "newest rounds with tool calls that stay whole")
    keep_files: int = _knob(2, "files most recently touched whose views stay whole")
    max_length: int = _knob(600, "characters; shorter results and arguments are left alone")
    keep_evidence: float = _knob(
        0.5, "share of an old result's characters that stays if it is evidence (failures, files changed since)"
    )
    keep_process: float = _knob(0.3, "likewise for process: reads and output of the way there; 0 leaves a placeholder")
    keep_transient: float = _knob(
        0.1, "likewise for transient: hits, listings, pages, and what a later result overtook; 0 leaves a placeholder"
    )
    squeeze_over: int = _knob(1500, "characters; old results below become placeholders, longer ones keep telling lines")
    arguments: Arguments = _knob(
        "replaced",
        "old call arguments that may go: all, text that is on disk by now (written), replaced plans (replaced), none",
    )
    admit_over: int = _knob(
        2500, "characters; command output, listings and search hits above are squeezed at first sight; 0: never"
    )
    admit_keep: int = _knob(1500, "characters of telling lines that first sight keeps")
    admit_read: int = _knob(
        15_000,
        "characters; a read of a file above is squeezed at first sight to its likeliest lines; 0: never",
    )
    admit_share: float = _knob(
        0.2, "share kept of what goes beyond `admit_read`, beside four fifths of `admit_read` itself"
    )
    admit_again: int = _knob(
        200,
        "characters; runs of lines that an earlier read still shows are not shown again from this length on; 0: never",
    )
    number_every: int = _knob(
        10,
        "lines that share one line number in what danshari writes, and in reads at first sight; 1: each keeps its own",
    )
    scorer: bool = _knob(True, "whether learned weights choose the lines that stay; otherwise plain rules do")
    admit_any: int = _knob(
        100_000,
        "characters; any result above, reads too, is squeezed at first sight (never more than a quarter of the window)",
    )
    protected: tuple[str, ...] = _knob(("Skill",), "tools (globs, any case) whose calls and results no pass touches")
    pinned: tuple[str, ...] = _knob((), "texts; an item that contains one is never touched")
    placeholder: Literal["seed", "full"] = _knob("full", "seed: the four fields; full: recall id and gist too")
    margin: float = _knob(0.2, "an edit that frees less than this share of an item is not made")
    factor: float = _knob(2.0, "a batch must earn this many times its cost")
    cooldown: int = _knob(8, "rounds between two commits, pressure aside")
    density: float = _knob(
        0.3, "share of new lines in the newest rounds below which proposals are weighed at once; 0: never (seed 3)"
    )
    density_rounds: int = _knob(3, "newest rounds that density, repeats and the forecast look at")
    on_phase: bool = _knob(True, "whether a change to repair or verify is a reason to weigh")
    horizon: int = _knob(8, "least number of rounds that are expected to follow; the rounds already seen count if more")
    fault: float = _knob(0.01, "chance that one edited item is needed again; a fault costs one extra round")
    purse: float = _knob(0.05, "a commit may at worst leave the session this share dearer than doing nothing")
    least: int = _knob(1500, "tokens a batch must free")
    token_trigger: int = _knob(0, "tokens; soft line as an absolute number; 0: use `evaluate`")
    evaluate: float = _knob(0.7, "soft line, as a share of the active budget")
    active: float = _knob(0.625, "active budget, as a share of the window (80K of 128K in the seed)")
    reserve: float = _knob(
        0.125, "kept free for the answer, as a share of the window, at most the model's output limit"
    )
    release: float = _knob(0.25, "share of the active budget that a forced commit frees beyond the line it crossed")
    major: float = _knob(
        0.9,
        "share of the usable window (window less reserve) above which a major compaction follows where the gentler "
        "passes do not help enough; 0: the soft line",
    )
    shape: Shape = _knob(
        "state",
        "after a major compaction: state: head, hand-over and newest rounds; seed: system and one summary message",
    )
    keep_tail: float = _knob(0.15, "newest whole rounds kept beside the hand-over, as a share of the active budget")
    handover: int = _knob(
        16_000,
        "characters of a hand-over, the user's words and rules aside; beyond 2,500 never more than a fifth of what it "
        "replaces",
    )
    restore: int = _knob(12_000, "characters of files shown as last seen, inside the hand-over; 0: none")
    language: str = _knob("", "language of the hand-over (en, zh, …); empty: that of the user's words")
    mask_secrets: bool = _knob(
        True, "mask keys and tokens in what danshari writes into a hand-over or sends to a summarizer"
    )
    mask_archive: bool = _knob(
        False,
        "mask keys and tokens in originals before they are archived, and in what edits write; such originals are no "
        "longer byte for byte",
    )
    recall_length: int = _knob(8_000, "characters that one recall shows at most")
    recall_restore: int = _knob(3, "recalls of one item after which it is shown whole again at its place; 0: never")
    summary_model: str = _knob("", "model named in summary requests; empty: the agent's own")
    summary_prompt: str = _knob("", "a sentence added to the summary prompt")
    summary_effort: str = _knob("", "reasoning effort asked of the summarizer; empty: its default")
    summary_tokens: int = _knob(4_000, "tokens a summarizer may answer with")
    summary_seconds: float = _knob(120.0, "seconds a summarizer may take for one answer")
    summary_request: Request = _knob(
        "warm", "warm: the agent's own request with the instruction last (cached); flat: the conversation as plain text"
    )
    tries: int = _knob(2, "answers asked of a summarizer before the model-free hand-over is used")
    fallback: int = _knob(10, "newest messages that stay where the seed's shape gets no summary from a model")
    chunks: int = _knob(6, "pieces a conversation may be cut into where it does not fit the summarizer's window")
    background: bool = _knob(
        False, "ask the summarizer in the background from the soft line on, and swap when it is ready"
    )
    thinking: Thinking = _knob(
        "strip",
        "bound thinking after an edit: strip: leave dead blocks out, edit only closed loops; "
        "hint: ask the provider to drop them; keep: no edit that would break one",
    )
    estimate: Estimate = _knob(
        "family", "token estimate: literal: the seed's formula; family: fitted per tokenizer family"
    )
    waives: tuple[str, ...] = _knob((), "promises this policy does not make")

    def share(self, tier: str) -> float:
        """Give the share of an old item's characters that its tier keeps (conclusions whole)."""
        shares = {"evidence": self.keep_evidence, "process": self.keep_process, "transient": self.keep_transient}
        return shares.get(tier, 1.0)

    def protects(self, name: str) -> bool:
        """Say whether a tool of this name is protected."""
        low = name.lower()
        return any(fnmatchcase(low, pattern.lower()) for pattern in self.protected)


_SHARES = {
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
    """Give every knob's name and what it does, in order."""
    return {f.name: str(f.metadata["text"]) for f in fields(Policy)}


def make_policy(values: Mapping[str, Any], *, base: Policy | None = None, where: str = "policy") -> Policy:
    """Build a policy from plain values; raises PolicyError naming the field, the value and what is allowed."""
    hints = get_type_hints(Policy)
    known = policy_fields()
    clean: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise PolicyError(f"{where}: unknown field {name!r}; known: {', '.join(known)}")
        clean[name] = _checked(name, value, hints[name], where)
    return replace(base or Policy(), **clean)


def _checked(name: str, value: Any, hint: Any, where: str) -> Any:
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
    if name in _SHARES and value > 1:
        raise PolicyError(f"{where}: {name} = {value!r}; is a share, 0 to 1")
    if name == "name" and not value:
        raise PolicyError(f"{where}: name must not be empty")
    return value
