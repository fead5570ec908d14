"""`pellucid serve` as its clients see it: the real server on a real socket, asked by the real `openai` client."""

import asyncio
import base64
import contextlib
import io
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
from trust import serving
from trust.serving import Connection, texts_of
from trust.tiny_runs import made

from pellucid.api.run import predict, sample, score
from pellucid.api.serving import CompletionOptions, ServedRun
from pellucid.cli import main
from pellucid.data import open_data
from pellucid.data.options import DataOptions
from pellucid.errors import PellucidError
from pellucid.http.door import Door
from pellucid.http.server import open_listener
from pellucid.serve import app as serve_app
from pellucid.serve.app import Service, build_server
from pellucid.serve.completion_calls import read_call
from pellucid.serve.options import ServeOptions
from pellucid.serve.running import require_key, serve_run
from pellucid.training.callbacks import Callbacks
from pellucid.training.options import TrainOptions
from pellucid.training.run import train_run

pytestmark = pytest.mark.usefixtures("one_thread")

ENDLESS = {"prompt": "", "temperature": 3, "max_tokens": 4000}  # of a text, which has no end of its own


@contextlib.contextmanager
def serving_run(run, **choices):
    """A server in a thread of this process, and its service."""
    served, options = ServedRun(run), ServeOptions(port=0, **choices)
    with open_listener("127.0.0.1", 0) as listener:
        service = Service(served, options)
        with service.running(), build_server(service, listener).in_thread() as server:
            yield f"http://127.0.0.1:{server.address[1]}", service


def take_time(service, monkeypatch):
    """Every step takes a millisecond at least, so that what is endless lasts seconds on a fast machine too."""
    step = service.generation.batch.step
    monkeypatch.setattr(service.generation.batch, "step", lambda: time.sleep(0.001) or step())


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    return made(tmp_path_factory.mktemp("names"), "tiny")


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    return made(tmp_path_factory.mktemp("story"), "story", kind="text")


@pytest.fixture(scope="module")
def server(names):
    with serving_run(names) as found:
        yield found


@pytest.fixture(scope="module")
def writer(story):
    with serving_run(story, batch=4, queue=4) as found:
        yield found


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"{server[0]}/v1", api_key="none", max_retries=0) as found:
        yield found


def post(address, body, path="/v1/completions", **choices):
    return httpx.post(f"{address}{path}", json=body, timeout=60, **choices)


def wait_until(condition):
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come about")


def test_the_client_of_openai_lists_models(client):
    (model,) = client.models.list().data
    assert (model.id, model.object, model.owned_by) == ("tiny", "model", "pellucid")
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError, match="there is no model called 'gpt'"):
        client.models.retrieve("gpt")


def test_the_client_of_openai_completes_as_sample_does(client, names):
    for seed in (0, 7):
        answer = client.completions.create(model="tiny", prompt="em", n=3, max_tokens=100, seed=seed)
        sampled = sample(names, prompt="em", count=3, seed=seed).record.samples
        assert ["em" + choice.text for choice in answer.choices] == [one.text for one in sampled]
        assert [choice.index for choice in answer.choices] == [0, 1, 2]
        assert answer.usage.prompt_tokens == 2
        assert answer.usage.completion_tokens == sum(one.n_tokens for one in sampled)
        assert answer.system_fingerprint.startswith("fp_")
        assert {choice.finish_reason for choice in answer.choices} == {"stop"}


def test_the_client_of_openai_streams_the_same_text(client):
    asked = {"model": "tiny", "prompt": ["em", "a"], "n": 2, "max_tokens": 30, "seed": 3, "stop": ["na"], "logprobs": 1}
    whole = client.completions.create(**asked)
    texts, finished, tokens, usage = ["", "", "", ""], {}, [[], [], [], []], None
    for part in client.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
        usage = part.usage or usage
        for choice in part.choices:
            texts[choice.index] += choice.text
            tokens[choice.index] += choice.logprobs.tokens
            if choice.finish_reason:
                finished[choice.index] = choice.finish_reason
    assert texts == [choice.text for choice in whole.choices]
    assert finished == {choice.index: choice.finish_reason for choice in whole.choices}
    assert tokens == [choice.logprobs.tokens for choice in whole.choices]
    assert usage == whole.usage


async def ask_all(address, bodies):
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=64)) as many:
        answers = await asyncio.gather(
            *(many.post(f"{address}/v1/completions", json=body, timeout=60) for body in bodies)
        )
    return [answer.json()["choices"] for answer in answers]


def test_alone_or_among_others_a_request_gets_the_same_text_and_numbers(server):
    address, service = server
    bodies = [
        {"prompt": "em"[: seed % 3], "seed": seed, "max_tokens": 5 + seed % 20, "logprobs": 2, "n": 1 + seed % 2}
        for seed in range(24)
    ]
    alone = [post(address, body).json()["choices"] for body in bodies]
    together = serving.run_apart(ask_all(address, bodies))
    assert service.keeps_bits
    assert together == alone
    assert service.metrics.drawn_tokens > service.metrics.steps  # they did share steps


def test_without_a_seed_each_completion_tells_the_one_that_draws_it_again(server):
    address, _ = server
    first = post(address, {"prompt": ["a", "a"], "max_tokens": 30, "n": 2}).json()["choices"]
    seeds = [choice["seed"] for choice in first]
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3]
    again = post(address, {"prompt": "a", "max_tokens": 30, "n": 2, "seed": seeds[2]}).json()["choices"]
    assert [choice["text"] for choice in again] == [choice["text"] for choice in first[2:]]


def test_prompts_as_tokens_are_prompts_as_text(server):
    address, service = server
    tokens = service.served.language_model.vocabulary.encode("em")
    texts = post(address, {"prompt": ["em", "em"], "seed": 1}).json()["choices"]
    numbers = post(address, {"prompt": [tokens, tokens], "seed": 1}).json()["choices"]
    assert texts == numbers
    assert post(address, {"prompt": tokens, "seed": 1}).json()["choices"] == texts[:1]


def test_echo_and_logprobs_tell_how_likely_the_prompt_was(server, names):
    address, _ = server
    body = {"prompt": "emma", "max_tokens": 0, "echo": True, "logprobs": 3}
    (choice,) = post(address, body).json()["choices"]
    scored = score(names, "emma").record.surprises
    assert (choice["text"], choice["finish_reason"]) == ("emma", "length")
    assert choice["logprobs"]["tokens"] == list("emma")
    assert choice["logprobs"]["text_offset"] == [0, 1, 2, 3]
    assert choice["logprobs"]["token_logprobs"] == pytest.approx([-one.nats for one in scored[:4]])
    for one, likeliest in zip(scored, choice["logprobs"]["top_logprobs"], strict=False):
        assert one.expected == max(likeliest, key=likeliest.get)
        assert one.token in likeliest


def test_a_text_echoes_its_first_token_without_a_number(writer):
    address, _ = writer
    body = {"prompt": "the", "max_tokens": 4, "echo": True, "logprobs": 0, "temperature": 0}
    (choice,) = post(address, body).json()["choices"]
    assert choice["text"].startswith("the")
    logs = choice["logprobs"]
    assert len(choice["text"]) == len(logs["tokens"]) == 7
    assert (logs["token_logprobs"][0], logs["top_logprobs"][0]) == (None, None)
    assert all(log < 0 for log in logs["token_logprobs"][1:])


@pytest.mark.parametrize("stops", [["e"], ["n", "ea"], ["\n"], ["the", "cat"], ["xyz"]])
def test_stop_texts_cut_where_they_begin(writer, stops):
    address, _ = writer
    asked = {"prompt": "the ", "max_tokens": 60, "seed": 2, "logprobs": 0}
    (free,) = post(address, asked).json()["choices"]
    (choice,) = post(address, {**asked, "stop": stops}).json()["choices"]
    places = [free["text"].find(stop) for stop in stops if stop in free["text"]]
    cut = min(places, default=len(free["text"]))
    assert choice["text"] == free["text"][:cut]
    assert choice["logprobs"]["tokens"] == free["logprobs"]["tokens"][:cut]
    assert choice["finish_reason"] == ("stop" if places else "length")
    assert (choice["stop_reason"] in stops) == bool(places)


BAD_BODIES = [
    *serving.MALFORMED,
    b'{"prompt": ["a", ["b"]]}',
    b'{"prompt": []}',
    b'{"prompt": "a", "top_k": 0}',
    b'{"prompt": "a", "stream_options": 3}',
    b'{"prompt": "a", "max_tokens": 0}',
    b'{"n": 65}',
    json.dumps({"prompt": ["a"] * 300}).encode(),
    json.dumps({"prompt": ["a"] * 200, "n": 10}).encode(),
    json.dumps({"stop": ["a"] * 17}).encode(),
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: repr(body[:30]))
def test_bad_bodies_are_refused_in_one_line(server, body):
    address, _ = server
    answer = httpx.post(f"{address}/v1/completions", content=body, headers={"content-type": "application/json"})
    if body in (b'{"stream": "yes"}',):
        assert answer.status_code == 400
    assert answer.status_code in (400, 404), answer.text
    message = answer.json()["error"]["message"]
    assert message.endswith(".")
    assert "\n" not in message
    assert len(message) <= 240


def test_what_is_wrong_is_said_as_fields_of_the_body(server):
    address, _ = server
    said = {
        '{"prompt": "é"}': """'é' (character 1) of the prompt was never seen in the data. Use "unknown": "skip" """
        "to leave out what is unknown.",
        '{"max_tokens": 5000}': "max_tokens is 5,000. The nearest that can be is 4,096.",
        '{"prompt": "aaaaaaaaaaaaaaaaaaaa"}': "the prompt has 20 tokens, and the model reads 11. Send the end of it.",
        '{"temprature": 1}': "there is no field called 'temprature'. Perhaps you meant temperature.",
        '{"presence_penalty": 0.5}': "presence_penalty is not done here. Leave it out.",
        '{"n": 1.0}': "n is '1.0'. Send a whole number.",
    }
    for body, message in said.items():
        answer = httpx.post(f"{address}/v1/completions", content=body, headers={"content-type": "application/json"})
        assert answer.json()["error"] == {
            "message": message, "type": "invalid_request_error", "param": None, "code": None
        }  # fmt: skip
    assert (
        post(address, {"prompt": "éa", "unknown": "skip", "echo": True, "seed": 1})
        .json()["choices"][0]["text"]
        .startswith("a")
    )


def test_other_addresses_and_methods_are_refused(server):
    address, _ = server
    assert httpx.get(f"{address}/v1/completions").status_code == 405
    assert httpx.get(f"{address}/v1/chat/completions").status_code == 404
    assert httpx.get(f"{address}/v1/models", headers={"host": "attacker.example"}).status_code == 403
    assert post(address, {"rows": []}, path="/v1/predict").status_code == 400
    large = httpx.post(
        f"{address}/v1/completions", content=b"a" * (1 << 20) + b"a", headers={"content-type": "application/json"}
    )
    assert large.status_code == 413


def test_health_and_metrics(server):
    address, _ = server
    post(address, {"prompt": "a", "seed": 1})
    health = httpx.get(f"{address}/health").json()
    assert health["status"] == "ok"
    assert (health["running"], health["waiting"], health["same_bits_in_any_batch"]) == (0, 0, True)
    answer = httpx.get(f"{address}/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.text.splitlines()
    assert all(re.fullmatch(r"# (HELP|TYPE) \w+ .+|\w+(\{[^}]*\})? [-+0-9.e]+(inf)?", line) for line in lines), lines
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert int(values['pellucid_requests_total{path="/v1/completions",status="200"}']) > 0
    assert int(values["pellucid_request_seconds_count"]) == int(values['pellucid_request_seconds_bucket{le="+Inf"}'])
    assert float(values["pellucid_memory_bytes"]) > 1e6


def test_a_client_that_leaves_frees_its_rows(writer, monkeypatch):
    address, service = writer
    take_time(service, monkeypatch)
    before = service.metrics.given_up
    with httpx.stream("POST", f"{address}/v1/completions", json={**ENDLESS, "stream": True, "n": 3}) as answer:
        parts = answer.iter_bytes()  # held, since httpx leaves when it goes
        assert next(parts)
        assert service.generation.n_running == 3
    wait_until(lambda: service.generation.n_running == 0)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{address}/v1/completions", json={**ENDLESS, "n": 2}, timeout=0.2)
    wait_until(lambda: service.generation.n_running == 0)
    assert service.metrics.given_up == before + 2


def test_nothing_is_written_to_a_client_that_left_while_its_text_piled_up(writer, caplog, monkeypatch):
    """The event loop is held up, as by a busy machine, so that many pieces wait for it when the client is gone."""
    address, service = writer
    take_time(service, monkeypatch)
    body = json.dumps({**ENDLESS, "stream": True, "n": 2}).encode()
    with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as client:
        client.sendall(Connection(client.getpeername()[1]).head("POST", "/v1/completions", len(body)) + body)
        assert client.recv(100)
        ((ticket, _),) = service.generation._running
        drawn = service.metrics.drawn_tokens
        ticket.loop.call_soon_threadsafe(wait_until, lambda: service.metrics.drawn_tokens > drawn + 100)
        wait_until(lambda: service.metrics.drawn_tokens > drawn + 20)
    wait_until(lambda: service.generation.n_running == 0)
    assert httpx.get(f"{address}/health").status_code == 200  # after whatever the loop had still to do
    assert not caplog.records


def test_a_full_queue_answers_429_and_says_when_to_come_back(writer, monkeypatch):
    address, service = writer
    step, gate = service.generation.batch.step, threading.Event()
    monkeypatch.setattr(service.generation.batch, "step", lambda: gate.wait(60) and step())
    body = {"prompt": "the", "max_tokens": 2, "n": 4, "seed": 1}
    with ThreadPoolExecutor() as clients:
        running = clients.submit(post, address, body)
        wait_until(lambda: service.generation.n_running == 4)
        waiting = clients.submit(post, address, body)
        wait_until(lambda: service.generation.n_waiting == 4)
        refused = post(address, {"prompt": "the"})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["type"] == "rate_limit_error"
        with (
            openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client,
            pytest.raises(openai.RateLimitError),
        ):
            client.completions.create(model="story", prompt="the")
        assert httpx.get(f"{address}/health").json()["waiting"] == 4
        gate.set()
        assert running.result().json()["choices"] == waiting.result().json()["choices"]
    assert post(address, {"prompt": "the"}).status_code == 200


def test_a_crowd_is_answered_or_told_to_come_back(writer):
    """Far more connections at once than may wait and run: none is closed without a word."""
    address, _ = writer
    port = int(address.rpartition(":")[2])

    async def ask():
        connection = Connection(port)
        with contextlib.closing(connection):
            status, headers, _ = await connection.ask("POST", "/v1/completions", b'{"prompt": "the", "max_tokens": 1}')
            return status, int(headers.get("retry-after", 0))

    async def ask_together():
        return await asyncio.gather(*(ask() for _ in range(700)))

    answers = serving.run_apart(ask_together())
    assert {status for status, _ in answers} <= {200, 429}
    assert all((status == 429) == (after >= 1) for status, after in answers)
    assert len(answers) == 700


def test_health_is_told_when_all_else_is_full(names, monkeypatch):
    doors = []
    monkeypatch.setattr(serve_app, "Door", lambda app, rules: doors.append(Door(app, rules)) or doors[-1])
    with serving_run(names) as (address, _):
        doors[0]._under_way = doors[0].rules.in_flight
        assert httpx.get(f"{address}/v1/models").status_code == 429
        assert httpx.get(f"{address}/health").status_code == 200


def test_few_open_files_allow_few_connections(monkeypatch):
    resource = pytest.importorskip("resource")
    allowed = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: allowed.append(limits))
    assert serve_app._allow_connections(300) == 300
    assert serve_app._allow_connections(3000) == 1024 - serve_app.OTHER_FILES
    assert allowed == [(300 + serve_app.OTHER_FILES, 1024), (1024, 1024)]


def test_what_takes_too_long_is_cut_and_says_so(story, monkeypatch):
    with serving_run(story, seconds=0.3) as (address, service):
        take_time(service, monkeypatch)
        (choice,) = post(address, {**ENDLESS, "seed": 1, "logprobs": 0}).json()["choices"]
        assert (choice["finish_reason"], choice["stop_reason"]) == ("length", "time limit")
        assert len(choice["text"]) == len(choice["logprobs"]["tokens"])
        assert service.generation.n_running == 0


def test_a_fault_of_ours_is_told_and_the_next_request_is_answered(story, monkeypatch, capsys):
    with serving_run(story) as (address, service):
        step = service.generation.batch.unsure.step
        faults = iter([ZeroDivisionError("test")])

        def broken():
            for fault in faults:
                raise fault
            return step()

        monkeypatch.setattr(service.generation.batch.unsure, "step", broken)
        assert post(address, {"prompt": "the"}).status_code == 500
        assert post(address, {"prompt": "the"}).status_code == 200
    assert "a bug: ZeroDivisionError" in capsys.readouterr().err


def test_a_key_is_asked_for(names, monkeypatch):
    monkeypatch.setenv("OWN_KEY", "0123456789abcdef")
    with serving_run(names, api_key_env="OWN_KEY") as (address, _):
        assert httpx.get(f"{address}/health").status_code == 200
        for path in ("/v1/models", "/metrics"):
            assert httpx.get(f"{address}{path}").status_code == 401
        with openai.OpenAI(base_url=f"{address}/v1", api_key="0123456789abcdeX", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError):
                client.models.list()
            assert client.with_options(api_key="0123456789abcdef").models.list().data[0].id == "tiny"


def test_another_host_needs_a_key(monkeypatch):
    with pytest.raises(PellucidError, match="can be reached from other machines, and no key is asked for"):
        require_key(ServeOptions(host="0.0.0.0"))
    with pytest.raises(PellucidError, match="'OWN_KEY' is not set"):
        require_key(ServeOptions(host="0.0.0.0", api_key_env="OWN_KEY"))
    monkeypatch.setenv("OWN_KEY", "short")
    with pytest.raises(PellucidError, match="holds no key of 16 or more"):
        require_key(ServeOptions(api_key_env="OWN_KEY"))
    monkeypatch.setenv("OWN_KEY", "0123456789abcdef")
    require_key(ServeOptions(host="0.0.0.0", api_key_env="OWN_KEY"))


def test_refusals_come_before_torch(run_together, tmp_path):
    commands = [
        ["serve", "--help"], ["serve"], ["serve", "nothing"], ["serve", "x", "--port", "70000"],
        ["serve", "x", "--host", "0.0.0.0"], ["serve", "x", "--api-key-env", "NOT_SET"],
    ]  # fmt: skip
    answers = run_together(commands)
    assert [one.code for one in answers] == [0, 2, 2, 2, 2, 2]
    assert not any("torch" in one.loaded for one in answers)
    assert all(one.err.count("\n") == 1 and not one.out for one in answers[1:])


def test_a_port_in_use_is_told(names):
    with open_listener("127.0.0.1", 0) as taken, pytest.raises(PellucidError, match="is in use by another program"):
        serve_run(str(names), ServeOptions(port=taken.getsockname()[1]), say=print)


def test_asked_to_end_it_finishes_what_runs(story):
    """In a process of its own, which a signal ends."""
    words = [sys.executable, "-m", "pellucid", "serve", "story", "--port", "0"]
    with subprocess.Popen(words, cwd=story.parent.parent, stdout=subprocess.PIPE, text=True) as process:
        port = int(re.search(r":(\d+)\n", process.stdout.readline())[1])

        async def ask():
            connections = [Connection(port), Connection(port)]
            body = json.dumps({"prompt": "the", "max_tokens": 150, "seed": 4, "stream": True}).encode()
            running = [asyncio.ensure_future(one.ask("POST", "/v1/completions", body)) for one in connections]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(connections[0].head("POST", "/v1/completions", len(body)) + body)
            await reader.readuntil(b"data: ")  # so much of an answer has come
            process.send_signal(signal.SIGTERM)
            answers = await asyncio.gather(*running)
            rest = await reader.read()
            writer.close()
            for one in connections:
                one.close()
            return answers, rest

        try:
            answers, rest = serving.run_apart(ask())
            assert process.wait(60) == 128 + signal.SIGTERM
        finally:
            process.kill()
    texts = {texts_of(body, is_stream=True)[0] for status, _, body in answers}
    assert len(texts) == 1
    assert len(texts.pop()) == 150
    assert b"data: [DONE]" in rest


def test_the_load_in_short(capsys, monkeypatch):
    """`python -m trust.serving` at length; memory is measured over too few requests here to say much."""
    monkeypatch.setattr(sys, "argv", ["serving", "--count", "150"])
    monkeypatch.setattr(serving, "GROWTH", 0.5)
    monkeypatch.setattr(serving, "HEALTH_SECONDS", 60)  # how busy the machine is decides it
    assert serving.main() == 0, capsys.readouterr().out
    said = capsys.readouterr().out
    crowd = re.search(r"150 at once +(\d+) answered, (\d+) told to come back", said)
    assert crowd is not None
    assert sum(map(int, crowd.groups())) == 150  # how many find room is decided by who is faster
    assert "1, 8, 64 in flight    200 of 200 requests gave the same bytes" in said


def test_a_model_that_counts_is_served(tmp_path, monkeypatch):
    (tmp_path / "own.txt").write_text("\n".join(f"{a}{b}" for a in "abcde" for b in ("mma", "na", "li")) + "\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main(["train", "own.txt", "--model", "bigram", "--name", "counted"])
    with serving_run("counted") as (address, _):
        body = {"prompt": "a", "n": 4, "seed": 2, "max_tokens": 50, "logprobs": 1}
        choices = post(address, body).json()["choices"]
        sampled = sample("counted", prompt="a", count=4, seed=2).record.samples
        assert ["a" + choice["text"] for choice in choices] == [one.text for one in sampled]


def test_a_call_is_read_strictly():
    call = read_call({"prompt": None, "stream": None, "temperature": 1, "logit_bias": {}, "user": "me"})
    assert call.prompts == ("",)
    assert call.options == CompletionOptions()
    assert not call.has_seed
    assert read_call({"top_k": 3, "top_p": 1}).options.filters == {"top_k": 3, "top_p": 1.0}


def test_torn_characters_wait_for_their_rest(tmp_path):
    run = made(tmp_path, "bytes", kind="text", tokens="bytes", text="né日本語 é 🙂 " * 200)
    with serving_run(run) as (address, _):
        body = {"prompt": "é", "max_tokens": 60, "temperature": 0.6, "n": 4, "seed": 1}
        whole = [choice["text"] for choice in post(address, body).json()["choices"]]
        with httpx.stream("POST", f"{address}/v1/completions", json={**body, "stream": True}) as answer:
            assert texts_of(answer.read(), is_stream=True) == whole
        sampled = sample(run, prompt="é", count=4, length=60, temperature=0.6, seed=1).record.samples
        assert whole == [one.text.removeprefix("é") for one in sampled]


TABLE = DataOptions("penguins", target="species"), TrainOptions("mlp", steps=20, size="tiny", kind="table")
IMAGES = DataOptions("digits"), TrainOptions("logistic", steps=20, kind="images")
PAIRS = DataOptions("dedupe-sort"), TrainOptions("transformer", steps=10, size="tiny", kind="pairs")


def trained(folder, asked):
    train_run(*asked, folder / "run", Callbacks())
    return folder / "run"


def refusals(address, bodies):
    for body in bodies:
        answer = post(address, body, path="/v1/predict")
        assert answer.status_code == 400, answer.text
        assert "\n" not in answer.json()["error"]["message"]


def test_rows_of_a_table_are_predicted(tmp_path):
    run = trained(tmp_path, TABLE)
    measured = {
        "bill_length_mm": 39.1,
        "bill_depth_mm": 18.7,
        "flipper_length_mm": 200,
        "body_mass_g": 3800.5,
        "year": 2007,
    }
    rows = [
        {**measured, "island": "Torgersen", "sex": None},
        {**measured, "bill_depth_mm": 14.2, "island": "Biscoe", "sex": "female"},
    ]
    with serving_run(run) as (address, service):
        answer = post(address, {"rows": rows}, path="/v1/predict").json()
        wanted = service.served.predict_rows(rows).predictions
        assert [one["answer"] for one in answer["data"]] == [one.answer for one in wanted]
        assert [one["probability"] for one in answer["data"]] == [one.probability for one in wanted]
        assert (answer["task"], answer["target"]) == ("classification", "species")
        assert answer["data"][0]["answer"] == answer["data"][0]["likeliest"][0]["answer"]
        refusals(
            address,
            [
                *({}, {"rows": []}, {"rows": 3}, {"rows": [1]}, {"rows": [{}]}, {"rows": [{"island": [1]}]}),
                *({"rows": [{"island": "Biscoe"}]}, {"rows": rows, "beam": 2}, {"images": ["aa"]}, {"row": rows}),
                *({"rows": rows * 600}, {"rows": [{**rows[0], "bill_length_mm": 10**30}]}),
                {"rows": [{**rows[0], "bill_length_mm": "long"}]},
            ],
        )
        assert post(address, {"prompt": "a"}).status_code == 400
        assert httpx.get(f"{address}/health").json()["status"] == "ok"
        assert "pellucid_predictions_total 2" in httpx.get(f"{address}/metrics").text


def test_images_are_predicted(tmp_path):
    from PIL import Image

    run = trained(tmp_path, IMAGES)
    pixels = open_data("digits").pixels[:3]
    files = []
    for one in pixels:
        written = io.BytesIO()
        Image.fromarray(one).save(written, "PNG")
        files.append(base64.b64encode(written.getvalue()).decode())
    with serving_run(run) as (address, _):
        answer = post(address, {"images": [files[0], f"data:image/png;base64,{files[1]}", files[2]]}, "/v1/predict")
        assert [one["answer"] for one in answer.json()["data"]] == [str(one) for one in predict(run, pixels)]
        refusals(address, [{"images": ["%%%"]}, {"images": ["aGVsbG8="]}, {"images": [""]}, {"images": [7]}])


def test_sources_of_pairs_are_answered(tmp_path):
    run = trained(tmp_path, PAIRS)
    with serving_run(run) as (address, _):
        greedy = post(address, {"sources": ["DAA", "CB"]}, path="/v1/predict").json()["data"]
        assert [one["answer"] for one in greedy] == predict(run, ["DAA", "CB"])
        beam = post(address, {"sources": ["DAA"], "beam": 3}, path="/v1/predict").json()["data"]
        assert 0 < beam[0]["probability"] <= 1
        refusals(
            address,
            [{"sources": ["xyz"]}, {"sources": [3]}, {"sources": ["A"], "beam": 10**6}, {"sources": ["A" * 999]}],
        )
