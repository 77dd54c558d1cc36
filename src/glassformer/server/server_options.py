"""Options of a server besides its model, limits and keys: where it listens, who may use it, what it logs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from glassformer.errors import SettingsError
from glassformer.server.access_log import FORMATS, LEVELS
from glassformer.server.access_policy import ANY_ORIGIN, ServerAddress
from glassformer.server.limits import Limits


@dataclass(frozen=True)
class ServerOptions:
    """Where a server listens, under which names it is reached, who may use it, what it logs, and its limits."""

    host: str = "127.0.0.1"
    port: int = 8000
    """0 takes a free one."""
    unix_socket: Path | None = None
    """Listen on this Unix socket, not on a port."""
    allow_host: Sequence[str] = ()
    allow_origin: Sequence[str] = ()
    root_path: str = ""
    allow_anonymous: bool = False
    """Whether other machines, and the pages of all sites, may use it without a key."""
    language_pair: tuple[str, str] | None = None
    access_log: str = "off"
    """Format of the access log on stderr: off, text or json."""
    log_level: str = "info"
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for name, value, known in (
            ("access_log", self.access_log, ("off", *FORMATS)),
            ("log_level", self.log_level, LEVELS),
        ):
            if value not in known:
                raise SettingsError(f"{name} = {value!r} should be one of {', '.join(known)}.")

    def address(self, has_keys: bool) -> ServerAddress:
        """The address under which clients may reach it; all sites may use it only if that is safe or wanted."""
        address = ServerAddress.of(self.allow_host, self.allow_origin, self.root_path)
        if ANY_ORIGIN in address.origins and not (has_keys or self.allow_anonymous):
            raise SettingsError(
                "--allow-origin '*' lets the pages of every site use this server through its users' browsers: require "
                "keys with --api-key-file FILE, or allow everyone with --open."
            )
        return address
