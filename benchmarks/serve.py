"""Completions over HTTP at 1, 8 and 64 clients at a time, beside the usual ways, in one run.

    python benchmarks/serve.py [--turns 3] [--clients 1 8 64] [--json]

A transformer of 4 blocks of width 128 with a context of 256, trained for two steps, since what is timed does not depend
on what was learned, goes on with prompts of 16 tokens for 64 more.

    ours         `pellucid serve`: requests join a running batch, computed in double precision
    one by one   the same with --batch 1
    peer         the same weights in the folder that `pellucid export --to hf` made of the run: Hugging Face `generate`
                 with its cache behind the same kind of server, one request after another, in single precision

Each server is a process of its own with one thread for computing. The clock is its CPU time, from /proc, because wall
time on a busy machine says more of the neighbours; arms take turns, and of each ratio the median of the turns' own
ratios is shown with the lowest and highest. What clients waited (p50, p99) is wall time, and is shown beside it. Memory
is the most that the server has held since it began.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from memory import most_held

ROOT = Path(__file__).parent.parent

VOCAB, CONTEXT, WIDTH, DEPTH, HEADS = 65, 256, 128, 4, 4
N_PROMPT, N_TOKENS = 16, 64
CLIENTS = (1, 8, 64)
REQUESTS = {1: 6, 8: 16, 64: 64}  # of each arm and turn
TICKS = os.sysconf("SC_CLK_TCK")


class Measured(NamedTuple):
    """One arm at one number of clients in one turn."""

    cpu_seconds: float
    wall_seconds: float
    waits: list[float]
    n_tokens: int
    held: int  # bytes, at most, since the server began

    @property
    def tokens_per_second(self) -> float:
        return self.n_tokens / self.cpu_seconds


class Arm:
    """A server in a process of its own."""

    def __init__(self, name: str, *words: str) -> None:
        self.name = name
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self.process = subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        self.address = ""

    def wait(self) -> None:
        """Until it listens; several start at the same time."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                self.address = found[0]
                return
        sys.exit(f"the server of {self.name} did not start")

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def end(self) -> None:
        self.process.kill()  # how it ends well is tested elsewhere
        self.process.wait()


async def ask(arm: Arm, n_clients: int, n_requests: int) -> Measured:
    """Clients that each ask again as soon as they were answered, until all requests are done."""
    import httpx

    waits: list[float] = []
    left = list(range(n_requests))
    n_tokens = 0

    async def client(session: httpx.AsyncClient) -> None:
        nonlocal n_tokens
        while left:
            number = left.pop()
            prompt = [(number * 7 + place) % VOCAB for place in range(N_PROMPT)]
            body = {"prompt": prompt, "max_tokens": N_TOKENS, "seed": number}
            began = time.monotonic()
            answer = await session.post(f"{arm.address}/v1/completions", json=body)
            answer.raise_for_status()
            waits.append(time.monotonic() - began)
            n_tokens += answer.json()["usage"]["completion_tokens"]

    async with httpx.AsyncClient(timeout=7200, limits=httpx.Limits(max_connections=n_clients)) as session:
        began, spent = time.monotonic(), arm.cpu_seconds()
        await asyncio.gather(*(client(session) for _ in range(n_clients)))
        spent = arm.cpu_seconds() - spent
        return Measured(spent, time.monotonic() - began, waits, n_tokens, most_held(arm.process.pid))


def make_run(folder: Path) -> Path:
    from pellucid.api.train import train

    text = folder / "symbols.txt"
    text.write_text("".join(chr(65 + place) for place in range(VOCAB)) * 600)
    made = train(
        str(text), kind="text", model="transformer", start="scratch", steps=2, width=WIDTH, depth=DEPTH, n_heads=HEADS,
        context=CONTEXT, name="bench", runs=folder / "runs",
    )  # fmt: skip
    return Path(made.folder)


def serve_peer(folder: str) -> None:
    """A plain server of Hugging Face's `generate` on an exported folder: one request after another."""
    import torch
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route
    from transformers import AutoModelForCausalLM

    from pellucid.http.server import open_listener

    torch.set_num_threads(1)
    torch.manual_seed(0)
    loading: Any = AutoModelForCausalLM  # without types of its own
    model = loading.from_pretrained(folder).eval()
    lock = threading.Lock()

    def generate(prompt: list[int], n_tokens: int) -> int:
        tokens = torch.tensor([prompt])
        with lock, torch.inference_mode():
            made = model.generate(
                tokens, attention_mask=torch.ones_like(tokens), do_sample=True, top_k=0, use_cache=True,
                min_new_tokens=n_tokens, max_new_tokens=n_tokens, max_length=None, pad_token_id=0,
            )  # fmt: skip
        return int(made.shape[1]) - len(prompt)

    async def complete(request: Request) -> JSONResponse:
        body = await request.json()
        n_drawn = await asyncio.to_thread(generate, body["prompt"], body["max_tokens"])
        return JSONResponse({"usage": {"completion_tokens": n_drawn}})

    listener = open_listener("127.0.0.1", 0)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    app = Starlette(routes=[Route("/v1/completions", complete, methods=["POST"])])
    uvicorn.Server(uvicorn.Config(app, log_level="critical", http="h11")).run(sockets=[listener])


def measure(turns: int, clients: tuple[int, ...]) -> dict[int, dict[str, list[Measured]]]:
    with tempfile.TemporaryDirectory() as folder:
        run = str(make_run(Path(folder)))
        served = ("-m", "pellucid", "serve", run, "--port", "0", "--seconds", "3600")
        arms = [Arm("ours", *served), Arm("one by one", *served, "--batch", "1", "--queue", "1000")]
        try:
            import transformers  # noqa: F401
        except ImportError:
            print("transformers is not installed: the peer is left out", file=sys.stderr)
        else:
            from pellucid.export import export_run

            export = export_run(run, to="hf", out=Path(folder) / "exported")
            print(
                f"exported: {export.check.tool} differs by {export.check.largest_difference:.1e} at most",
                file=sys.stderr,
            )
            arms.append(Arm("peer", __file__, "--peer", export.folder))
        try:
            for arm in arms:
                arm.wait()
                asyncio.run(ask(arm, 1, 2))
                if arm.name != "peer":  # the first batch of a size takes memory that later ones use again
                    asyncio.run(ask(arm, max(clients), max(clients)))
            found: dict[int, dict[str, list[Measured]]] = {}
            for n_clients in clients:
                found[n_clients] = {arm.name: [] for arm in arms}
                for _ in range(turns):
                    for arm in arms:
                        found[n_clients][arm.name].append(asyncio.run(ask(arm, n_clients, REQUESTS[n_clients])))
            return found
        finally:
            for arm in arms:
                arm.end()


def shown(found: dict[int, dict[str, list[Measured]]]) -> str:
    lines = []
    for n_clients, arms in found.items():
        lines.append(f"{n_clients} client{'s' * (n_clients > 1)}")
        ours = [one.tokens_per_second for one in arms["ours"]]
        for name, turns in arms.items():
            rates = [one.tokens_per_second for one in turns]
            waits = sorted(wait for one in turns for wait in one.waits)
            p50, p99 = waits[len(waits) // 2], waits[min(len(waits) - 1, int(0.99 * len(waits)))]
            line = f"  {name:11} {statistics.median(rates):8,.0f} tokens per CPU second"
            line += f"   waited {p50:7.2f} s (p50) {p99:7.2f} s (p99)   {turns[-1].held / 1e6:6,.0f} MB"
            if name != "ours":
                ratios = [own / other for own, other in zip(ours, rates, strict=True)]
                line += f"   ours is {statistics.median(ratios):.1f}× ({min(ratios):.1f}–{max(ratios):.1f})"
            lines.append(line)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Completions over HTTP beside the usual ways.")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, choices=CLIENTS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peer", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.peer:
        serve_peer(asked.peer)
        return
    found = measure(asked.turns, tuple(asked.clients))
    if asked.json:
        print(
            json.dumps(
                {
                    n: {name: [one._asdict() for one in turns] for name, turns in arms.items()}
                    for n, arms in found.items()
                }
            )
        )
    else:
        print(f"CPU time of each server, medians of {asked.turns} turns; {N_TOKENS} tokens after {N_PROMPT}")
        print(shown(found))


if __name__ == "__main__":
    main()
