"""Every setting of a compaction in one immutable value, in groups.

Presets are files under `data/policies`. The field texts here also feed the documentation and the CLI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, get_type_hints

from danshari.core.options import check_option, option, option_texts
from danshari.errors import PolicyError

CommitMode = Literal["always", "gain", "cold", "trigger"]
ArgumentsMode = Literal["all", "written", "replaced", "none"]
ThinkingMode = Literal["strip", "hint", "keep"]
MendMode = Literal["safe", "report", "off"]
EstimateMode = Literal["literal", "family"]
CompactedShape = Literal["state", "seed"]
RequestMode = Literal["warm", "flat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRules:
    """When edits are committed, and what a batch must earn."""

    mode: CommitMode = option(
        "gain",
        "always: every round; gain: when it pays; cold: after the cache expired; trigger: over the soft line only",
    )
    factor: float = option(2.0, "a batch must earn this many times its cost")
    cooldown: int = option(8, "rounds between two commits, pressure aside")
    density: float = option(
        0.3,
        "share of new lines in the newest rounds below which proposals are weighed at once; 0: never (seed 3)",
        share=True,
    )
    on_phase: bool = option(True, "whether a change to repair or verify is a reason to weigh")
    horizon: int = option(
        8, "least number of rounds that are expected to follow; the rounds already seen count if more"
    )
    refetch: float = option(
        0.01, "chance that one edited item is needed again; a fault costs one extra round", share=True
    )
    purse: float = option(
        0.05, "a commit may at worst leave the session this share dearer than doing nothing", share=True
    )
    least: int = option(1500, "tokens a batch must free")
    token_trigger: int = option(0, "tokens; soft line as an absolute number; 0: use `commit.evaluate`")
    evaluate: float = option(0.7, "soft line, as a share of the active budget", share=True)
    active: float = option(0.625, "active budget, as a share of the window (80K of 128K in the seed)", share=True)
    reserve: float = option(
        0.125, "kept free for the answer, as a share of the window, at most the model's output limit", share=True
    )
    release: float = option(
        0.25, "share of the active budget that a forced commit frees beyond the line it crossed", share=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitRules:
    """First sight: what is shortened before any provider has seen it."""

    over: int = option(
        2500, "characters; command output, listings and search hits above are squeezed at first sight; 0: never"
    )
    keep: int = option(1500, "characters of telling lines that first sight keeps")
    read_over: int = option(
        15000, "characters; a read of a file above is squeezed at first sight to its likeliest lines; 0: never"
    )
    read_share: float = option(
        0.2, "share kept of what goes beyond `read_over`, beside four fifths of `read_over` itself", share=True
    )
    reread_over: int = option(
        200,
        "characters; runs of lines that an earlier read still shows are not shown again from this length on; 0: never",
    )
    any_over: int = option(
        100000,
        "characters; any result above, reads too, is squeezed at first sight (never more than a quarter of the window)",
    )
    number_every: int = option(
        10,
        "lines that share one line number in what danshari writes, and in reads at first sight; 1: each keeps its own",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ElideRules:
    """What old results and arguments keep."""

    keep_rounds: int = option(3, "newest rounds with tool calls that stay whole")
    keep_files: int = option(2, "files most recently touched whose views stay whole")
    max_length: int = option(600, "characters; shorter results and arguments are left alone")
    evidence: float = option(
        0.5,
        "share of an old result's characters that stays if it is evidence (failures, files changed since)",
        share=True,
    )
    process: float = option(
        0.3, "likewise for process: reads and output of the way there; 0 leaves a placeholder", share=True
    )
    transient: float = option(
        0.1,
        "likewise for transient: hits, listings, pages, and what a later result overtook; 0 leaves a placeholder",
        share=True,
    )
    arguments: ArgumentsMode = option(
        "replaced",
        "old call arguments that may go: all, text that is on disk by now (written), replaced plans (replaced), none",
    )
    placeholder: Literal["seed", "full"] = option("full", "seed: the four fields; full: recall id and gist too")
    margin: float = option(0.2, "an edit that frees less than this share of an item is not made", share=True)
    scorer: bool = option(True, "whether learned weights choose the lines that stay; otherwise plain rules do")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverRules:
    """The hand-over that takes the place of older rounds."""

    above: float = option(
        0.9,
        "share of the usable window (window less reserve) above which a major compaction follows where the gentler "
        "passes do not help enough; 0: the soft line",
        share=True,
    )
    shape: CompactedShape = option(
        "state",
        "after a major compaction: state: head, hand-over and newest rounds; seed: system and one summary message",
    )
    tail: float = option(
        0.15, "newest whole rounds kept beside the hand-over, as a share of the active budget", share=True
    )
    size: int = option(
        16000,
        "characters of a hand-over, the user's words and rules aside; beyond 2,500 never more than a "
        "fifth of what it replaces",
    )
    restore: int = option(12000, "characters of files shown as last seen, inside the hand-over; 0: none")
    alternate: bool = option(
        False,
        "whether a hand-over keeps user and assistant taking turns, calls and results aside, for chat templates that "
        "demand it: it then takes the side that is due, with a word of the other where needed",
    )
    language: str = option("", "language of the hand-over (en, zh, …); empty: that of the user's words")
    mask_secrets: bool = option(
        True, "mask keys and tokens in what danshari writes into a hand-over or sends to a summarizer"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRules:
    """How a summarizer is asked."""

    model: str = option("", "model named in summary requests; empty: the agent's own")
    prompt: str = option("", "a sentence added to the summary prompt")
    effort: str = option("", "reasoning effort asked of the summarizer; empty: its default")
    tokens: int = option(4000, "tokens a summarizer may answer with")
    seconds: float = option(120.0, "seconds a summarizer may take for one answer")
    request: RequestMode = option(
        "warm", "warm: the agent's own request with the instruction last (cached); flat: the conversation as plain text"
    )
    tries: int = option(2, "answers asked of a summarizer before the model-free hand-over is used")
    chunks: int = option(6, "pieces a conversation may be cut into where it does not fit the summarizer's window")
    background: bool = option(
        False, "ask the summarizer in the background from the soft line on, and swap when it is ready"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRules:
    """What a recall shows and what the archive holds."""

    length: int = option(8000, "characters that one recall shows at most")
    restore: int = option(3, "recalls of one item after which it is shown whole again at its place; 0: never")
    mask_archive: bool = option(
        False,
        "mask keys and tokens in originals before they are archived, and in what edits write; such "
        "originals are no longer byte for byte",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How one session's context is kept: what may change, when a change is committed, what is never touched."""

    name: str = option("balanced", "the preset's name, or your own")
    passes: tuple[str, ...] = option(
        ("admit", "superseded", "elide", "summarize", "evict"), "passes in use, gentlest first"
    )
    protected: tuple[str, ...] = option(("Skill",), "tools (globs, any case) whose calls and results no pass touches")
    pinned: tuple[str, ...] = option((), "texts; an item that contains one is never touched")
    thinking: ThinkingMode = option(
        "strip",
        "bound thinking after an edit: strip: leave dead blocks out, edit only closed loops; "
        "hint: ask the provider to drop them; keep: no edit that would break one",
    )
    protected_head: int = option(0, "messages after the system prompt that no pass and no hand-over touches")
    mend: MendMode = option(
        "safe",
        "what a provider would refuse in messages that came in broken (calls never answered, stray results, half "
        "surrogates, empty contents): safe: mended in what is sent; report: told only; off: left alone",
    )
    estimate: EstimateMode = option(
        "family", "token estimate: literal: the seed's formula; family: fitted per tokenizer family"
    )
    commit: CommitRules = field(default_factory=CommitRules)
    admit: AdmitRules = field(default_factory=AdmitRules)
    elide: ElideRules = field(default_factory=ElideRules)
    handover: HandoverRules = field(default_factory=HandoverRules)
    summary: SummaryRules = field(default_factory=SummaryRules)
    recall: RecallRules = field(default_factory=RecallRules)

    def with_fields(self, **values: Any) -> Policy:
        """Return a copy with other values: whole groups, or fields named `group_field`, such as `admit_over`.

        Raises PolicyError for an unknown field or a value that does not fit.
        """
        if removed := REMOVED_FIELDS.keys() & values:
            raise PolicyError(f"policy {self.name}: {sorted(removed)[0]} is no field any more")
        return make_policy(values, base=self, where=f"policy {self.name}")

    def share(self, tier: str) -> float:
        """Return the share of an old item's characters that its tier keeps (1 for conclusions)."""
        elide = self.elide
        return {"evidence": elide.evidence, "process": elide.process, "transient": elide.transient}.get(tier, 1.0)

    def protects(self, name: str) -> bool:
        """Return whether a tool of this name is protected."""
        low = name.lower()
        return any(fnmatchcase(low, pattern.lower()) for pattern in self.protected)


GROUPS: dict[str, type[Any]] = {
    "commit": CommitRules,
    "admit": AdmitRules,
    "elide": ElideRules,
    "handover": HandoverRules,
    "summary": SummaryRules,
    "recall": RecallRules,
}
RENAMED_FIELDS = {
    "commit": "commit.mode",
    "factor": "commit.factor",
    "cooldown": "commit.cooldown",
    "density": "commit.density",
    "on_phase": "commit.on_phase",
    "horizon": "commit.horizon",
    "fault": "commit.refetch",
    "purse": "commit.purse",
    "least": "commit.least",
    "token_trigger": "commit.token_trigger",
    "evaluate": "commit.evaluate",
    "active": "commit.active",
    "reserve": "commit.reserve",
    "release": "commit.release",
    "admit_over": "admit.over",
    "admit_keep": "admit.keep",
    "admit_read": "admit.read_over",
    "admit_share": "admit.read_share",
    "admit_again": "admit.reread_over",
    "admit_any": "admit.any_over",
    "number_every": "admit.number_every",
    "keep_rounds": "elide.keep_rounds",
    "keep_files": "elide.keep_files",
    "max_length": "elide.max_length",
    "keep_evidence": "elide.evidence",
    "keep_process": "elide.process",
    "keep_transient": "elide.transient",
    "arguments": "elide.arguments",
    "placeholder": "elide.placeholder",
    "margin": "elide.margin",
    "scorer": "elide.scorer",
    "major": "handover.above",
    "shape": "handover.shape",
    "keep_tail": "handover.tail",
    "handover": "handover.size",
    "restore": "handover.restore",
    "language": "handover.language",
    "mask_secrets": "handover.mask_secrets",
    "summary_model": "summary.model",
    "summary_prompt": "summary.prompt",
    "summary_effort": "summary.effort",
    "summary_tokens": "summary.tokens",
    "summary_seconds": "summary.seconds",
    "summary_request": "summary.request",
    "tries": "summary.tries",
    "chunks": "summary.chunks",
    "background": "summary.background",
    "recall_length": "recall.length",
    "recall_restore": "recall.restore",
    "mask_archive": "recall.mask_archive",
}
"""Fields of danshari 0.1, which had no groups → their place now."""
REMOVED_FIELDS = {"squeeze_over": 1500, "density_rounds": 3, "fallback": 10, "waives": ()}
"""Fields of danshari 0.1 that are constants now, and their value; `waives` did nothing."""


def policy_fields() -> dict[str, str]:
    """Return the name and description of every policy field, in order; a field of a group is named `group.field`."""
    texts = option_texts(Policy)
    for group, owner in GROUPS.items():
        texts |= {f"{group}.{name}": text for name, text in option_texts(owner).items()}
    return texts


def policy_value(policy: Policy, name: str) -> Any:
    """Return the value of a field by its name in `policy_fields`."""
    group, _, field_name = name.rpartition(".")
    return getattr(getattr(policy, group) if group else policy, field_name)


def make_policy(values: Mapping[str, Any], *, base: Policy | None = None, where: str = "policy") -> Policy:
    """Build a policy from plain values: groups as tables, or single fields named `group.field` or `group_field`.

    The names of danshari 0.1 are understood too. Raises PolicyError with the field, its value and what is allowed.
    """
    base = base or Policy()
    top: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for name, value in _flat_values(values, where).items():
        if name in REMOVED_FIELDS:
            continue
        owner, field_name = _place_of(name, where)
        clean = _check_value(name, field_name, value, GROUPS.get(owner, Policy), where)
        chosen = inner.setdefault(owner, {}) if owner else top
        if field_name in chosen:
            raise PolicyError(f"{where}: {owner}.{field_name} is given twice, once as {name}")
        chosen[field_name] = clean
    changed = {group: replace(getattr(base, group), **chosen) for group, chosen in inner.items()}
    return replace(base, **top, **changed)


def outdated_fields(values: Mapping[str, Any]) -> list[str]:
    """Return a line for every field that is named as in danshari 0.1, with what to write instead."""
    found = [f"{old} is [{new.replace('.', '] ')} now" for old, new in RENAMED_FIELDS.items() if _is_old(old, values)]
    removed = (name for name in REMOVED_FIELDS if name in values)
    return found + [f"{name} is no field any more ({REMOVED_FIELDS[name] or 'it did nothing'})" for name in removed]


def _is_old(name: str, values: Mapping[str, Any]) -> bool:
    """Return whether a field is given under its old name; `commit` and `handover` are groups today."""
    return (
        name in values and not isinstance(values[name], Mapping) and RENAMED_FIELDS[name] != name.replace("_", ".", 1)
    )


def _flat_values(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return values with the tables of groups taken apart; raises PolicyError if a group is no table."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if name in GROUPS and isinstance(value, GROUPS[name]):
            value = {f.name: getattr(value, f.name) for f in fields(GROUPS[name])}
        if isinstance(value, Mapping):
            if name not in GROUPS:
                raise PolicyError(f"{where}: unknown group [{name}]; known: {', '.join(GROUPS)}")
            flat |= {f"{name}.{inner}": v for inner, v in value.items()}
        else:
            flat[name] = value
    return flat


def _place_of(name: str, where: str) -> tuple[str, str]:
    """Return the group ("" for none) and the field that a name stands for; raises PolicyError if there is none."""
    known = policy_fields()
    if name in known:
        group, _, field_name = name.rpartition(".")
        return group, field_name
    group, _, field_name = name.partition("_")
    if f"{group}.{field_name}" in known:
        return group, field_name
    if name in RENAMED_FIELDS:
        group, _, field_name = RENAMED_FIELDS[name].partition(".")
        return group, field_name
    inner = RENAMED_FIELDS.get(name.rpartition(".")[2])
    hint = f"did you mean {inner}?" if inner else f"known: {', '.join(known)}"
    raise PolicyError(f"{where}: unknown field {name!r}; {hint}")


def _check_value(name: str, field_name: str, value: Any, owner: type[Any], where: str) -> Any:
    """Return the value in its field's type; raises PolicyError with the values allowed if it does not fit."""
    wrong = check_option(value, get_type_hints(owner)[field_name])
    if not wrong and owner.__dataclass_fields__[field_name].metadata["share"] and value > 1:
        wrong = "is a share, 0 to 1"
    if not wrong and name == "name" and not value:
        raise PolicyError(f"{where}: name must not be empty")
    if wrong:
        raise PolicyError(f"{where}: {name} = {value!r}; {wrong}")
    return tuple(value) if isinstance(value, list) else value
