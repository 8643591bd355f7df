"""Settings: read once from file, then environment, then flags; the last one wins.

Unknown keys are errors, every field has a default and one line of documentation, and
`stoker config show` prints each value with where it came from. Parts receive plain values, never
this object. Nothing is read at import time.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.runner.filesystem import network_filesystem

if TYPE_CHECKING:
    from stoker.domain.queue import Queue

DEFAULT_LISTEN = "127.0.0.1:7433"
MOST_KEPT = {"keep_days": 36_500, "keep_tasks": 10**12}


HIDDEN = "***"
ROOTS_HOME = Path("/var/lib/stoker")
FILE = "config.toml"


DEBUG_QUEUE = """\
[queues.debug]
about = "Short tests"
priority = 10
default_limit_s = 900
longest_s = 900
most_cards_each = 2"""


def about(text: str, *, secret: bool = False, example: str = "") -> dict[str, Any]:
    """A secret is shown nowhere, and cannot be a flag: everybody may read a command line. What has an
    `example` is a table of the file, and nothing else can say it."""
    return {"about": text, "secret": secret, "example": example}


@dataclass(frozen=True)
class Settings:
    """What the server is started with."""

    home: Path = field(
        metadata=about("State folder, on a local disk: database, logs, token, spool")
    )
    listen: str = field(
        default=DEFAULT_LISTEN,
        metadata=about("HOST:PORT to serve on; [::1]:7433 for IPv6, port 0 for any free one"),
    )
    host_names: str = field(
        default="",
        metadata=about(
            "Names under which people reach this server, with commas between; requests for other"
            " names are refused"
        ),
    )
    tls_cert: str = field(
        default="",
        metadata=about(
            "File with the server's certificate and its chain (PEM); read anew when it changes"
        ),
    )
    tls_key: str = field(
        default="", metadata=about("File with the certificate's private key (PEM)")
    )
    plain_http: bool = field(
        default=False,
        metadata=about(
            "Serve other machines without TLS: whoever is on the network can read passwords and tokens"
        ),
    )
    database: str = field(
        default="",
        repr=False,
        metadata=about(
            "URL of a PostgreSQL database for the records, postgresql://USER:PASSWORD@HOST/NAME;"
            " empty = SQLite in the state folder",
            secret=True,
        ),
    )
    node_name: str = field(
        default="", metadata=about("This machine's name in lists; empty = its host name")
    )
    simulate_gpus: int = field(
        default=0, metadata=about("Pretend to have this many GPUs (for trying Stoker out)")
    )
    one_person: bool = field(
        default=True,
        metadata=about(
            "Serve the one account that started it, no log-in; false for root unless it is set"
        ),
    )
    server_account: str = field(
        default="stoker",
        metadata=about("With root's runner: the unix account of the server, made if it is absent"),
    )
    allowed_group: str = field(
        default="",
        metadata=about("With root's runner: tasks run as members of this unix group only"),
    )
    least_uid: int = field(
        default=1000, metadata=about("With root's runner: no tasks of accounts with a lower uid")
    )
    policy: str = field(
        default="balance",
        metadata=about("Who goes first: balance (smallest running share), fifo, or fairshare"),
    )
    gpu_slots: int = field(
        default=1, metadata=about("Exclusive tasks that may use one GPU side by side, 1 to 64")
    )
    keep_days: int = field(
        default=0,
        metadata=about("Finished tasks and their output are deleted after so many days; 0 = never"),
    )
    keep_tasks: int = field(
        default=0,
        metadata=about("Only so many finished tasks are kept, the newest; 0 = any number"),
    )
    queues: Mapping[str, Queue] = field(
        default_factory=dict,
        metadata=about(
            "Queues that there are from the start, each a table [queues.NAME]; what is changed with"
            " `stoker queue` counts more",
            example=DEBUG_QUEUE,
        ),
    )
    log_level: str = field(default="info", metadata=about("debug, info, warning or error"))


@dataclass(frozen=True)
class Loaded:
    settings: Settings
    sources: dict[str, str]
    """Where each value came from: default, file, environment, flag."""


class BadSetting(Exception):
    """A setting that cannot be used: `key`, `problem` (a code for text/), `value`."""

    def __init__(self, key: str, problem: str, value: object = "") -> None:
        if key in _SECRETS:
            value = HIDDEN
        self.key, self.problem, self.value = key, problem, value
        super().__init__(key, problem, value)


_SECRETS = frozenset(f.name for f in dataclasses.fields(Settings) if f.metadata["secret"])


def load(environ: Mapping[str, str], flags: Mapping[str, Any]) -> Loaded:
    """The effective settings. `flags` holds only what was typed."""
    home, home_source = _home(environ)
    values: dict[str, Any] = {"home": home}
    sources = {f.name: "default" for f in dataclasses.fields(Settings)} | {"home": home_source}
    kinds = {f.name: _kind(f) for f in dataclasses.fields(Settings)}
    for source, given in (
        ("file", _file(home / FILE)),
        ("environment", _environment(environ, kinds)),
        ("flag", dict(flags)),
    ):
        for key, value in given.items():
            if key not in kinds or key == "home":
                raise BadSetting(key, "unknown_setting")
            values[key] = _convert(key, value, kinds[key])
            sources[key] = source
    if sources["one_person"] == "default" and is_root():
        values["one_person"] = False
        sources["one_person"] = "default (root)"
    settings = Settings(**values)
    if not settings.node_name:
        settings = dataclasses.replace(
            settings, node_name=socket.gethostname().split(".")[0] or "node"
        )
    _check(settings)
    return Loaded(settings, sources)


def shown(setting: dataclasses.Field[Any], settings: Settings) -> object:
    """The value of a setting, for people."""
    value = getattr(settings, setting.name)
    if isinstance(value, Mapping):
        return ", ".join(sorted(value))
    return HIDDEN if value and setting.metadata["secret"] else value


def find_home(environ: Mapping[str, str]) -> Path:
    """The state folder that `up` and every other command agree on, with no configuration."""
    return _home(environ)[0]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    import ipaddress  # noqa: PLC0415 - servers ask, and commands start here

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def names_in(text: str) -> tuple[str, ...]:
    """Host names with commas or spaces between."""
    return tuple(text.replace(",", " ").split())


def is_root() -> bool:
    """Root serves a lab: everybody as themselves."""
    return sys.platform == "linux" and os.geteuid() == 0


def split_address(listen: str) -> tuple[str, int]:
    """`127.0.0.1:7433`, `[::1]:7433`, `:7433` (every address) as host and port."""
    host, colon, port = listen.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise BadSetting("listen", "bad_address", listen)
    if ":" in host and not listen.startswith("["):
        raise BadSetting("listen", "bad_address", listen)
    return host or "0.0.0.0", int(port)  # noqa: S104 - asked for by an empty host


def _home(environ: Mapping[str, str]) -> tuple[Path, str]:
    given = environ.get("STOKER_HOME", "")
    if given:
        return Path(os.path.abspath(os.path.expanduser(given))), "environment"
    local_data = environ.get("LOCALAPPDATA", "")
    if os.name == "nt" and local_data:
        return Path(local_data) / "stoker", "default"
    if is_root():
        return ROOTS_HOME, "default"
    state = environ.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else Path(os.path.expanduser("~/.local/state"))
    home = base / "stoker"
    if network_filesystem(str(home)):
        local = Path(f"/var/tmp/stoker-{os.getuid()}")  # noqa: S108 - made 0700 and checked by `up`
        return local, "default (home is on a network file system)"
    return home, "default"


def _file(path: Path) -> dict[str, Any]:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return {}
    import tomllib  # noqa: PLC0415 - most have no such file, and every command starts here

    try:
        return tomllib.loads(raw.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(str(path), "bad_file", str(error)) from error


def _environment(environ: Mapping[str, str], kinds: Mapping[str, type]) -> dict[str, str]:
    names = {
        f"STOKER_{key.upper()}": key
        for key, kind in kinds.items()
        if key != "home" and kind is not dict
    }
    return {key: environ[name] for name, key in names.items() if environ.get(name)}


def _kind(setting: dataclasses.Field[Any]) -> type:
    kinds: dict[str, type] = {"Path": Path, "str": str, "int": int, "bool": bool}
    return kinds.get(str(setting.type), dict)


def _convert(key: str, value: object, kind: type) -> object:
    if kind is dict:
        return _queues(value)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    if kind is int and isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if kind is bool and str(value).lower() in ("1", "true", "yes", "0", "false", "no"):
        return str(value).lower() in ("1", "true", "yes")
    raise BadSetting(key, "bad_value", value)


def _queues(tables: object) -> dict[str, Queue]:
    """Read strictly: a limit with a typing error in its name would be no limit."""
    import msgspec  # noqa: PLC0415 - most have no such table, and every command starts here

    from stoker.domain.check_queue import check_queue  # noqa: PLC0415
    from stoker.domain.checks import explain_validation  # noqa: PLC0415
    from stoker.domain.errors import InvalidSpec  # noqa: PLC0415
    from stoker.domain.queue import Queue, QueueTerms  # noqa: PLC0415

    if not isinstance(tables, dict):
        raise BadSetting("queues", "bad_value", tables)
    found = {}
    for name, table in tables.items():
        try:
            unknown = set(table) - set(QueueTerms.__struct_fields__)
            if unknown:
                raise BadSetting(f"queues.{name}.{min(unknown)}", "unknown_setting")
            terms = msgspec.convert(table, QueueTerms)
            check_queue(name, terms)
        except msgspec.ValidationError as error:
            field = explain_validation(str(error)).field.partition("[")[0]
            raise BadSetting(f"queues.{name}.{field}", "bad_value", table.get(field)) from error
        except InvalidSpec as error:
            value = name if error.field == "name" else table.get(error.field)
            raise BadSetting(f"queues.{name}.{error.field}", "bad_value", value) from error
        except TypeError as error:
            raise BadSetting(f"queues.{name}", "bad_value", table) from error
        found[name] = Queue(name=name, **{f: getattr(terms, f) for f in terms.__struct_fields__})
    return found


def _check(settings: Settings) -> None:
    _check_listening(settings)
    if settings.database and "://" not in settings.database:
        raise BadSetting("database", "bad_database_url")
    if not 0 <= settings.simulate_gpus <= 1024:
        raise BadSetting("simulate_gpus", "bad_value", settings.simulate_gpus)
    if settings.policy not in ("balance", "fifo", "fairshare"):
        raise BadSetting("policy", "bad_value", settings.policy)
    if not 1 <= settings.gpu_slots <= 64:
        raise BadSetting("gpu_slots", "bad_value", settings.gpu_slots)
    if settings.server_account in ("", "root"):
        raise BadSetting("server_account", "bad_value", settings.server_account)
    if not 1 <= settings.least_uid < 2**31:
        raise BadSetting("least_uid", "bad_value", settings.least_uid)
    for key in ("keep_days", "keep_tasks"):
        if not 0 <= getattr(settings, key) <= MOST_KEPT[key]:
            raise BadSetting(key, "bad_value", getattr(settings, key))
    if settings.log_level not in ("debug", "info", "warning", "error"):
        raise BadSetting("log_level", "bad_value", settings.log_level)


def _check_listening(settings: Settings) -> None:
    """Nobody else's machine is served in clear unless that was said."""
    host, _ = split_address(settings.listen)
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise BadSetting("tls_key" if settings.tls_cert else "tls_cert", "tls_half")
    if not settings.tls_cert and not settings.plain_http and not is_loopback(host):
        raise BadSetting("listen", "plain_http", settings.listen)
