"""A server from the command to its end. What can be refused is refused before torch is loaded."""

from __future__ import annotations

from collections.abc import Callable

from pellucid.api.serving import ServedRun
from pellucid.errors import PellucidError, quoted
from pellucid.http.server import is_loopback, open_listener
from pellucid.serve.options import ServeOptions


def serve_run(run: str, options: ServeOptions, say: Callable[[str], None]) -> int | None:
    """Answer until a signal; its number comes back. say: is told where it listens, once it does."""
    require_key(options)
    served = ServedRun(run)
    with open_listener(options.host, options.port) as listener:
        served.load(options.threads)

        from pellucid.serve.app import Service, build_server

        service = Service(served, options)
        server = build_server(service, listener)
        with service.running():
            return server.run(on_ready=lambda: say(_welcome(served, *server.address)))


def require_key(options: ServeOptions) -> None:
    """Refuse a key that is none, and to listen where others can ask without one."""
    options.read_key()
    if not is_loopback(options.host) and not options.api_key_env:
        raise PellucidError(
            f"{quoted(options.host)} can be reached from other machines, and no key is asked for",
            fix="Name the variable that holds one, as {api_key_env}",
            options={"api_key_env": "PELLUCID_KEY"},
        )


def _welcome(served: ServedRun, host: str, port: int) -> str:
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    path, body = {
        "table": ("/v1/predict", '{"rows": [{"COLUMN": 1}]}'),
        "images": ("/v1/predict", '{"images": ["BASE64"]}'),
        "pairs": ("/v1/predict", '{"sources": ["TEXT"]}'),
    }.get(served.kind, ("/v1/completions", '{"prompt": "", "max_tokens": 20, "seed": 1}'))
    return (
        f"{served.name} answers at {address}\n\n"
        f"  curl {address}{path} -H 'Content-Type: application/json' -d '{body}'\n\n"
        "Ctrl-C ends it when running requests are done."
    )
