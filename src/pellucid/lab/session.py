"""Who may come in: whoever has the link that was printed, once; and from then on whoever has the cookie it gave."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.responses import RedirectResponse, Response

from pellucid.http.door import RequestHeaders, equals_secret


@dataclass
class Session:
    """One start of the lab. The token opens the door once; the next one is then told to `on_used`.

    Cookies are not kept apart by port, so that the name has the port, and something that no other start has.
    """

    port: int
    on_used: Callable[[str], None] = lambda token: None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    mark: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def cookie(self) -> str:
        return f"pellucid-{self.port}-{self.mark}"

    def admits(self, headers: RequestHeaders) -> bool:
        """Whether a request brings the cookie of this start."""
        found = False
        for line in headers.every("cookie"):
            for part in line.split(";"):
                name, _, value = part.strip().partition("=")
                # Every one is compared, so that the time tells nothing of which it was.
                found |= name == self.cookie and equals_secret(value, self.secret)
        return found

    def enter(self, token: str) -> Response | None:
        """The cookie for a token that is good, and the page without the token in its address; None for another."""
        if not equals_secret(token, self.token):
            return None
        self.token = secrets.token_urlsafe(24)
        self.on_used(self.token)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self.cookie, self.secret, httponly=True, samesite="strict", path="/")
        return answer
