"""The proxy's settings, from a file, the environment and the command line; later ones take precedence."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_origin, get_type_hints

from danshari import data
from danshari.core.options import check_option, option, option_texts
from danshari.errors import ArgumentError

ENVIRONMENT_PREFIX = "DANSHARI_PROXY_"
"""Environment variables: the prefix and a field's name in capitals."""
LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")
RecallMode = Literal["auto", "on", "off"]
HandoverAuthor = Literal["code", "model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of the proxy; each field's text is its documentation."""

    host: str = option("127.0.0.1", "address to listen on; beyond loopback a `token` is needed")
    port: int = option(8484, "port to listen on; 0: any free one")
    policy: str = option("balanced", "preset or policy file")
    upstreams: Mapping[str, str] = option(
        dict, "name → base URL; `*` takes everything that names none (in the file: a table)"
    )
    archive: str = option("", "the archive's file; empty: the user's; `:memory:`: nothing is kept")
    project: str = option("", "project under which originals are archived")
    owner: str = option(
        "", "who alone uses this proxy: refreshed and further credentials are then the same tenant; empty: each is one"
    )
    recall: RecallMode = option(
        "auto", "recall tools: auto: for clients with tools of their own that are not known to check them; on; off"
    )
    handover: HandoverAuthor = option(
        "code", "who writes hand-overs: code; model: the client's own model, with the client's own key"
    )
    hosts: str = option("", "further names by which a proxy on loopback may be called, separated by commas")
    off: bool = option(False, "pass everything through untouched")
    token: str = option("", "what clients must send as `x-danshari-token`; needed beyond loopback")
    largest: int = option(200_000_000, "bytes of a request beyond which it is refused with 413")
    follow: int = option(64_000_000, "bytes of a request beyond which it is passed through unread")
    concurrency: int = option(2_000, "requests at once; more are refused with 503")
    sessions: int = option(200, "sessions kept ready; older ones are read back from the archive")
    connect_seconds: float = option(10.0, "seconds to wait for a connection to the upstream")
    idle_seconds: float = option(600.0, "seconds without a byte from the upstream after which it counts as hung")
    body_seconds: float = option(60.0, "seconds a client may take for its request's body")
    drain_seconds: float = option(30.0, "seconds that running requests get at shutdown")

    @property
    def is_public(self) -> bool:
        """Whether the proxy can be reached from other machines."""
        return self.host not in LOOPBACK_HOSTS

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names in `hosts`."""
        return tuple(filter(None, (name.strip().lower() for name in self.hosts.split(","))))

    def validate(self) -> Settings:
        """Return these settings if they are valid; raises ArgumentError otherwise."""
        if self.is_public and not self.token:
            raise ArgumentError(f"host {self.host!r} is beyond loopback: set a token that clients must send")
        for name, url in self.upstreams.items():
            if not url.startswith(("http://", "https://")):
                raise ArgumentError(f"upstream {name} = {url!r}: must begin with http:// or https://")
        for name in ("largest", "follow", "concurrency", "sessions"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} = {getattr(self, name)}: must be 1 or more")
        if not 0 <= self.port < 65_536:
            raise ArgumentError(f"port = {self.port}: must be 0 to 65535")
        data.load_policy(self.policy)
        return self


def settings_fields() -> dict[str, str]:
    """Return each setting's name and description, in order."""
    return option_texts(Settings)


def load_settings(
    file: Path | None = None, given: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Load settings from a file, then the environment, then the given values that are not None.

    Raises ArgumentError that names the source and the field of an invalid value.
    """
    found: dict[str, Any] = {}
    if file is not None:
        found |= _read_settings_file(file)
    known = settings_fields()
    for name, text in (os.environ if environment is None else environment).items():
        if name.startswith(ENVIRONMENT_PREFIX) and (key := name.removeprefix(ENVIRONMENT_PREFIX).lower()) in known:
            found[key] = _convert_value(key, _parse_upstreams(text) if key == "upstreams" else text, name)
    for key, value in (given or {}).items():
        if value is not None and value != {}:
            found[key] = {**found.get("upstreams", {}), **value} if key == "upstreams" else value
    return replace(Settings(), **found).validate()


def _read_settings_file(path: Path) -> dict[str, Any]:
    """Read settings from a TOML file; raises ArgumentError for what is unreadable or unknown."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgumentError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path} is no TOML file: {error}") from None
    known = settings_fields()
    for key in table:
        if key not in known:
            raise ArgumentError(f"{path}: unknown setting {key!r}; known: {', '.join(known)}")
    return {key: _convert_value(key, value, str(path)) for key, value in table.items()}


def _convert_value(key: str, value: Any, where: str) -> Any:
    """Convert a value to its field's type; raises ArgumentError."""
    hint = get_type_hints(Settings)[key]
    if get_origin(hint) is Literal:
        if wrong := check_option(value, hint):
            raise ArgumentError(f"{where}: {key} = {value!r}; {wrong}")
        return value
    if key == "upstreams":
        if not isinstance(value, Mapping) or not all(isinstance(v, str) for v in value.values()):
            raise ArgumentError(f"{where}: upstreams must map names to base URLs")
        return dict(value)
    if hint is bool and isinstance(value, str):
        if value.lower() not in ("1", "0", "true", "false", "yes", "no", ""):
            raise ArgumentError(f"{where}: {key} = {value!r}; must be true or false")
        return value.lower() in ("1", "true", "yes")
    try:
        return hint(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{where}: {key} = {value!r}; must be {hint.__name__}") from None


def _parse_upstreams(text: str) -> dict[str, str]:
    """Parse `NAME=URL,NAME=URL`; a URL without a name becomes the catch-all `*`."""
    return dict(parse_upstream(part) for part in text.split(",") if part.strip())


def parse_upstream(text: str) -> tuple[str, str]:
    """Parse `NAME=URL`; a URL without a name becomes the catch-all `*`."""
    name, mark, url = text.strip().partition("=")
    return (name, url) if mark and "/" not in name else ("*", text.strip())
