"""The lab's door against a table that was written down: `python -m trust.door_matrix`.

Every combination of 40 Hosts, 25 Origins, 6 values of Sec-Fetch-Site, 5 cookies, 8 kinds of body and 4 methods, 960,000
in all, is put to the door as a request that a server would hand on. It must let through exactly those that the table
allows: our own Host, an Origin that is that Host's or none, a Sec-Fetch-Site that is our own, the right cookie, and a
GET, or a POST of JSON.
"""

from __future__ import annotations

import argparse
import itertools
import random
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pellucid.http.door import Door
from pellucid.lab.app import Lab, build_lab
from pellucid.lab.memory import ReleasesMemory
from pellucid.lab.session import Session

GOOD_HOSTS = ("127.0.0.1:P", "localhost:P", "LOCALHOST:P", "[::1]:P")
HOSTS = (
    *GOOD_HOSTS,
    *("attacker.example:P", "attacker.example", "127.0.0.1.nip.io:P", "localhost.evil.com", "localhost.evil.com:P", ""),
    *("localhost@evil.com", "127.0.0.1:P/?x=", "127.0.0.1:P/static/app.js?", "127.0.0.1:P#", "a/?x=", "0.0.0.0:P"),
    *("127.1:P", "2130706433", "2130706433:P", "0x7f000001:P", "0177.0.0.1:P", "localhost.:P", "localhost:1"),
    *(
        "localhost",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:0P",
        "127.0.0.1:P:P",
        " 127.0.0.1:P",
        "127.0.0.1:P ",
        "[::]:P",
    ),
    *(
        "[::ffff:127.0.0.1]:P",
        "::1:P",
        "[::1]",
        "127.0.0.2:P",
        "evil@127.0.0.1:P",
        "localhost:P.evil.com",
        "[::1%25lo]:P",
        "127.0.0.1:P,evil.com",
        "ⓛocalhost:P",
    ),
)
ORIGINS = (
    *(None, "http://127.0.0.1:P", "http://localhost:P", "http://[::1]:P"),
    *(
        "https://evil.com",
        "null",
        "",
        "http://127.0.0.1:P.evil.com",
        "http://127.0.0.1:P@evil.com",
        "https://127.0.0.1:P",
    ),
    *("HTTP://127.0.0.1:P", "http://127.0.0.1:P/", "http://127.0.0.1:9999", "http://127.0.0.1", "http://LOCALHOST:P"),
    *("http://evil.localhost:P", "file://", "http://0.0.0.0:P", "http://attacker.example:P", "http://127.1:P", "*"),
    *("chrome-extension://abc", "http://localhost:P http://localhost:P", "http://localhost:P,null", "localhost:P"),
)
SITES = (None, "same-origin", "none", "same-site", "cross-site", "same-origin, cross-site")
COOKIES = ("good", "other secret", "other name", "empty", None)
KINDS = (
    *("application/json", "application/json; charset=utf-8", "text/plain", "application/x-www-form-urlencoded"),
    *("multipart/form-data; boundary=x", "application/jsonx", "", None),
)
METHODS = ("GET", "POST", "OPTIONS", "TRACE")


class Row(NamedTuple):
    """One combination."""

    host: str
    origin: str | None
    site: str | None
    cookie: str | None
    kind: str | None
    method: str

    def is_allowed(self) -> bool:
        """What the table says; written without the door's own words."""
        own = {host: f"http://{host.lower()}" for host in GOOD_HOSTS}
        is_ours = self.host in own and self.origin in (None, own[self.host].replace(":p", ":P"))
        is_asked = self.method == "GET" or (self.method == "POST" and self.kind in KINDS[:2])
        return is_ours and self.site in SITES[:3] and self.cookie == "good" and is_asked


def all_rows() -> Iterator[Row]:
    return itertools.starmap(Row, itertools.product(HOSTS, ORIGINS, SITES, COOKIES, KINDS, METHODS))


def compare(rows: Iterable[Row]) -> tuple[int, int, list[Row]]:
    """How many were tried and let through, and the rows where door and table disagree."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        session = Session(port)
        lab = Lab(Path("nowhere"), Path("nowhere"), session)
        built = build_lab(lab, listener)
        assert isinstance(built, ReleasesMemory)
        door = built.app
        assert isinstance(door, Door)
        n_tried, n_passed, wrong = 0, 0, []
        for row in rows:
            is_through = door.check(_scope(row, port, session)) is None
            n_tried += 1
            n_passed += is_through
            if is_through != row.is_allowed():
                wrong.append(row)
        lab.close()
    return n_tried, n_passed, wrong


def _scope(row: Row, port: int, session: Session) -> dict[str, object]:
    cookies = {
        "good": f"{session.cookie}={session.secret}",
        "other secret": f"{session.cookie}={session.secret[:-1]}",
        "other name": f"{session.cookie[:-1]}={session.secret}",
        "empty": f"{session.cookie}=",
    }
    given = {
        "host": row.host,
        "origin": row.origin,
        "sec-fetch-site": row.site,
        "cookie": cookies.get(row.cookie) if row.cookie else None,
        "content-type": row.kind,
    }
    headers = [
        (name.encode(), value.replace(":P", f":{port}").replace(":0P", f":0{port}").encode())
        for name, value in given.items()
        if value is not None
    ]
    return {"type": "http", "method": row.method, "path": "/api/derive", "raw_path": b"/api/derive", "headers": headers}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=0, help="so many by lot; by default all")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rows: Iterable[Row] = all_rows()
    if asked.count:
        rows = random.Random(asked.seed).sample(list(rows), asked.count)
    began = time.monotonic()
    n_tried, n_passed, wrong = compare(rows)
    seconds = time.monotonic() - began
    print(f"{n_tried:,} combinations in {seconds:.0f} s: {n_passed:,} let through, {len(wrong)} against the table")
    for row in wrong[:10]:
        print(f"    {row}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
