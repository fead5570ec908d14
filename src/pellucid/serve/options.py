"""What a user may set of a server. Nothing heavy, so that a host without a key is refused at once."""

from __future__ import annotations

import os
from dataclasses import dataclass

from pellucid.errors import PellucidError, quoted
from pellucid.options import check_options, option

SHORTEST_KEY = 16  # characters; a shorter one can be guessed


@dataclass(frozen=True)
class ServeOptions:
    """Where a server listens, and how much it takes on."""

    host: str = option(
        "127.0.0.1", "Address to listen at; any but this machine's own needs a key.", value_name="ADDRESS"
    )
    port: int = option(8321, "Port to listen at; 0 takes a free one.", minimum=0, maximum=65535)
    api_key_env: str = option(
        "", "Environment variable that holds the key clients have to send.", value_name="NAME", example="PELLUCID_KEY"
    )
    batch: int = option(64, "Completions that are drawn at the same time.", maximum=1024)
    queue: int = option(256, "Completions that may wait; with more the answer is 429.", maximum=100_000)
    seconds: float = option(
        60.0, "Time limit of one request.", minimum=0, is_minimum_open=True, maximum=86_400, example="60"
    )
    grace: float = option(
        30.0, "Seconds that running requests may take to finish once the server is asked to end.", minimum=0,
        maximum=3_600,
    )  # fmt: skip
    threads: int = option(1, "Threads that compute; more help large networks only.", maximum=256)

    def __post_init__(self) -> None:
        check_options(self)

    def read_key(self) -> str:
        """The key that clients have to send, "" where none is asked for."""
        if not self.api_key_env:
            return ""
        key = os.environ.get(self.api_key_env, "")
        if len(key) < SHORTEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
            raise PellucidError(
                f"the environment variable {quoted(self.api_key_env)} "
                + (f"holds no key of {SHORTEST_KEY} or more letters, digits and marks" if key else "is not set"),
                fix=f"Try export {self.api_key_env}=$(openssl rand -hex 16)",
            )
        return key
