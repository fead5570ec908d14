"""The lab's server: who may come in, what may be asked, and that its numbers are the command line's."""

import asyncio
import contextlib
import hashlib
import http.client
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from PIL import Image
from trust.door_matrix import all_rows, compare
from trust.lab_door import SHORT, attack

import pellucid
from pellucid.api import exports
from pellucid.api.numbers import NetworkNumbers
from pellucid.api.preview import MOST_LISTED, list_data, preview_data
from pellucid.api.processes import TrainingProcesses
from pellucid.api.runs import RunFollower, list_runs
from pellucid.api.speak import Speaker
from pellucid.figures.picture import follow_page
from pellucid.http.answers import Refusal
from pellucid.http.door import RequestHeaders
from pellucid.http.server import HttpServer, open_listener
from pellucid.inspection.judgements import judge_health
from pellucid.lab import runs as lab_runs
from pellucid.lab import uploads
from pellucid.lab.app import Lab, build_lab
from pellucid.lab.session import Session
from pellucid.lab.uploads import ReceivedFolder, safe_name
from pellucid.lab.workers import Worker
from pellucid.models.contracts import SequenceModel
from pellucid.records import Evaluation, Replan, as_plain
from pellucid.runs import RunWriter, find_writer, open_run

STATIC = Path(pellucid.__file__).parent / "lab" / "static"
NAMES = sorted(
    {a + b + c for a in ("an", "be", "cor", "da", "el") for b in ("na", "li", "ro", "mi") for c in ("", "s", "n")}
)


class Visitor(NamedTuple):
    """A client of a lab that runs in this process."""

    lab: Lab
    server: HttpServer
    folder: Path

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.address[1], timeout=120)
        session = self.lab.session
        octets = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        kind = (
            {}
            if body is None
            else {"content-type": "application/octet-stream" if isinstance(body, bytes) else "application/json"}
        )
        given = {
            "cookie": f"{session.cookie}={session.secret}",
            **kind,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        connection.request(method, path, octets, {name: value for name, value in given.items() if value})
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, json.loads(said) if found.get("content-type") == "application/json" else said, found

    def get(self, path: str, **headers: str) -> Any:
        code, said, _ = self.ask("GET", path, **headers)
        assert code == 200, said
        return said

    def post(self, path: str, body: Any) -> Any:
        code, said, _ = self.ask("POST", path, body)
        assert code < 300, said
        return said


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    folder = tmp_path_factory.mktemp("lab")
    (folder / "words.txt").write_text("\n".join(NAMES))
    before = Path.cwd()
    os.chdir(folder)
    try:
        pellucid.train("words.txt", name="small", model="transformer", size="tiny", steps=12, threads=1)
        listener = open_listener("127.0.0.1", 0)
        lab = Lab(folder / "runs", folder, Session(listener.getsockname()[1]))
        with HttpServer(build_lab(lab, listener), listener, SHORT).in_thread() as server:
            yield Visitor(lab, server, folder)
        lab.close()
    finally:
        os.chdir(before)


# The door


def test_the_link_works_once_and_gives_a_cookie():
    said: list[str] = []
    session = Session(8000, said.append)
    token = session.token
    assert session.enter("another") is None
    entered = session.enter(token)
    assert entered is not None
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert session.enter(token) is None
    assert said == [session.token]
    assert session.token != token
    for line, is_good in (
        (f"a=b; {session.cookie}={session.secret}", True),
        (f"{session.cookie}=x", False),
        ("", False),
    ):
        scope = {"headers": [(b"cookie", line.encode())] if line else []}
        assert session.admits(RequestHeaders(scope)) is is_good
    assert Session(8000).cookie != Session(8000).cookie


def test_without_a_cookie_only_the_empty_page_is_shown(visitor):
    code, page, headers = visitor.ask("GET", "/", cookie="")
    assert code == 200
    assert b"small" not in page
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert visitor.ask("GET", "/static/app.js", cookie="")[0] == 200
    assert visitor.ask("GET", "/?token=wrong", cookie="")[1].count(b"does not open the lab") == 1
    for path in (
        "/api/home",
        "/api/runs/small",
        "/api/runs/small/events",
        "/api/runs/small/files/run.json",
        "/api/claims",
    ):
        assert visitor.ask("GET", path, cookie="")[0] == 401
        assert visitor.ask("GET", path, host="attacker.example")[0] == 403
        assert visitor.ask("GET", path, origin="https://evil.example")[0] == 403
        assert visitor.ask("GET", path, sec_fetch_site="same-site")[0] == 403
    before = len(list_runs(visitor.lab.runs))
    start = {"where": "comes", "name": "names", "options": {"steps": 1}}
    for wrong in ({"origin": "null"}, {"cookie": "a=b"}, {"content_type": "text/plain"}):
        assert visitor.ask("POST", "/api/train/start", start, **wrong)[0] in (401, 403, 415)
    assert visitor.ask("GET", "/api/train/start")[0] == 405
    assert len(list_runs(visitor.lab.runs)) == before


def test_the_labs_door_lets_through_exactly_what_the_table_says():
    """The long version is trust/door_matrix.py: all 960,000 combinations."""
    rows = list(all_rows())
    allowed = [row for row in rows if row.is_allowed()]
    assert (len(rows), len(allowed)) == (960_000, 240)
    n_tried, n_passed, wrong = compare([*random.Random(1).sample(rows, 5_000), *allowed])
    assert wrong == []
    assert 240 <= n_passed < n_tried / 10


TRAVERSALS = [
    *("../run.json", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "....//", "..%5c..%5c", "/etc/passwd"),
    *("//etc/passwd", "%00", "a%00.txt", "C:/", ".", "a" * 5000, "%E2%80%A5/", "lock", "checkpoints"),
]


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_path_leads_elsewhere(visitor, path):
    for before in ("/api/runs/small/files/", "/api/runs/", "/static/", "/api/runs/small/figures/"):
        code, said, _ = visitor.ask("GET", before + path)
        assert 400 <= code < 500, (before + path, said)
        assert b"root:" not in (said if isinstance(said, bytes) else b"")


def test_links_and_other_folders_are_not_followed(visitor):
    link = visitor.lab.runs / "small" / "samples.jsonl"
    content = link.read_bytes()
    link.unlink()
    link.symlink_to("/etc/passwd")
    try:
        assert visitor.ask("GET", "/api/runs/small/files/samples.jsonl")[0] == 404
    finally:
        link.unlink()
        link.write_bytes(content)
    for where, name in (
        ("folder", "../words.txt"),
        ("folder", "/etc/passwd"),
        ("comes", "words.txt"),
        ("dropped", "../../words.txt"),
        ("http", "http://127.0.0.1:9/x.csv"),
        ("folder", "s3://x"),
        ("folder", "runs"),
    ):
        for path in ("preview", "split", "plan", "start"):
            code, said, _ = visitor.ask("POST", f"/api/train/{path}", {"where": where, "name": name})
            assert code == 400, said
    assert visitor.ask("POST", "/api/xray", {"model": "/tmp/evil.py:f"})[0] == 400
    assert visitor.ask("POST", "/api/xray", {"model": "__import__('os').system('true')"})[0] == 400


def test_what_is_taken_along_is_a_file_and_nothing_else(visitor):
    code, content, headers = visitor.ask("GET", "/api/runs/small/files/report.html")
    assert code == 200
    assert content == (visitor.lab.runs / "small" / "report.html").read_bytes()
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"].startswith("attachment")
    assert "sandbox" in headers["content-security-policy"]
    code, picture, headers = visitor.ask("GET", "/api/runs/small/figures/loss-curves")
    assert (code, headers["content-type"]) == (200, "image/svg+xml")
    assert "sandbox" in headers["content-security-policy"]
    drawn = pellucid.draw("loss-curves", visitor.lab.runs / "small").drawing.svg
    assert picture.decode() == follow_page(drawn)  # the same, and a style for pages that are dark
    assert visitor.ask("GET", "/api/runs/small/figures/confusion")[0] == 400


def test_dropped_files_have_names_of_their_own(visitor):
    kept = visitor.post(
        f"/api/upload?name={quote('../../<img src=x onerror=alert(1)>.TXT')}", b"\n".join(map(str.encode, NAMES))
    )
    assert kept["where"] == "dropped"
    assert re.fullmatch(r"[0-9a-f]{16}/img-src-x-onerror-alert-1\.txt", kept["name"])
    path = visitor.lab.dropped / kept["name"]
    assert path.read_text().splitlines() == NAMES
    seen = visitor.post("/api/train/preview", {"where": "dropped", "name": kept["name"]})
    assert seen["kind"] == "list"
    assert seen["first"]
    assert visitor.ask("POST", "/api/upload?name=x", b"")[0] == 400
    assert not [one for one in visitor.lab.dropped.iterdir() if one.name.startswith(".tmp")]
    assert safe_name("\u202e\ud800..") == "data"


def image_part(label: str, name: str, content: bytes, **others: Any) -> bytes:
    return json.dumps({"label": label, "name": name, "n_bytes": len(content), **others}).encode() + b"\n" + content


def test_a_dropped_folder_of_images_is_classes_and_nothing_else(visitor):
    """The class is the folder's name, whatever it says; of a file's name only what is harmless is left."""
    file = io.BytesIO()
    Image.new("L", (8, 8), 200).save(file, "PNG")
    image, labels = file.getvalue(), ("Käfer & co", "<img src=x onerror=alert(1)>")
    parts = [image_part(label, f"../../{number}.png", image) for label in labels for number in range(12)]
    kept = visitor.post(f"/api/upload/folder?name={quote('../../my shapes')}", b"".join(parts))
    assert re.fullmatch(r"[0-9a-f]{16}/my-shapes", kept["name"])
    assert kept["n_bytes"] == 24 * len(image)
    place = visitor.lab.dropped / kept["name"]
    assert {path.name for path in place.iterdir()} == set(labels)
    assert all(re.fullmatch(r"\d{6}-\d+\.png", path.name) for path in place.glob("*/*"))
    seen = visitor.post("/api/train/preview", {"where": "dropped", "name": kept["name"]})
    assert (seen["kind"], set(seen["classes"])) == ("images", set(labels))
    listed = {one["name"]: one for one in visitor.get("/api/data")["data"] if one["where"] == "dropped"}
    assert listed[kept["name"]]["kind"] == "images"
    assert visitor.post("/api/upload/folder?name=my-shapes", b"".join(parts))["name"].endswith("/my-shapes")
    # One that holds no pictures of attention can be drawn from a folder.
    assert visitor.ask("GET", f"/api/runs/small/figures/patch-attention?input=dropped:{kept['name']}")[0] == 400
    before = sorted(visitor.lab.dropped.iterdir())
    two = image_part("a", "1.png", image) + image_part("b", "2.png", image)
    for wrong in (
        *(
            two + image_part(label, "x.png", image)
            for label in ("..", "../x", "a/b", "a\\b", ".x", " ", "", "\0", "\u202e")
        ),
        *(two + image_part(label, "x.png", image) for label in ("x\n", "é" * 200)),
        *(b"", two[:-1], two + b"{", two + b"{}\n", two + b"x" * 5000, b'["a"]\n', image_part("a", "1.png", image)),
        *(two + image_part("b", "x", b"", n_bytes=n) for n in (-1, 0, 1 << 60, "3", None, 1.5)),
    ):
        code, said, _ = visitor.ask("POST", "/api/upload/folder?name=x", wrong)
        assert code == 400, said
    assert visitor.ask("POST", "/api/upload/folder?name=x", two, content_type="application/json")[0] in (400, 413, 415)
    assert sorted(visitor.lab.dropped.iterdir()) == before
    assert not list(visitor.folder.rglob("x.png"))


def test_however_many_files_were_dropped_few_are_looked_into(tmp_path, monkeypatch):
    """The first page asks every few seconds; it lists those that came last, and looks into no others."""
    dropped = tmp_path / "dropped"
    for number in range(2 * MOST_LISTED):
        (dropped / f"{number:016x}").mkdir(parents=True)
        (dropped / f"{number:016x}" / "words.txt").write_text("anna\n")
        os.utime(dropped / f"{number:016x}", (number, number))
    looked: list[str] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: [looked.append(str(folder)), scan(folder)][1])
    listed = [one.name for one in list_data(tmp_path / "own", dropped) if one.where == "dropped"]
    newest = [f"{number:016x}" for number in range(2 * MOST_LISTED - 1, MOST_LISTED - 1, -1)]
    assert listed == [f"{name}/words.txt" for name in newest]
    assert {Path(one).name for one in looked if Path(one).parent == dropped} == set(newest)


def test_a_folder_comes_in_parts_that_end_anywhere_and_has_limits(tmp_path, monkeypatch):
    body = b"".join(image_part(label, f"{label}.png", bytes(range(10)) * 3) for label in "abc")
    digests = set()
    for size in (1, 7, 64, len(body)):
        received = ReceivedFolder(tmp_path / str(size))
        for at in range(0, len(body), size):
            received.write(body[at : at + size])
        digests.add(received.finish())
        found = {str(path.relative_to(received.path)): path.read_bytes() for path in received.path.glob("*/*")}
        assert found == {f"{label}/{i:06d}-{label}.png": bytes(range(10)) * 3 for i, label in enumerate("abc", 1)}
    assert len(digests) == 1
    for limit in ("MOST_IMAGES", "MOST_CLASSES"):
        with monkeypatch.context() as changed:
            changed.setattr(uploads, limit, 2)
            with pytest.raises(Refusal, match="more than") as refused:
                ReceivedFolder(tmp_path / limit).write(body)
            assert refused.value.status == 413


def test_vendored_files_are_what_was_taken_from_npm():
    said = json.loads((STATIC / "vendor" / "VERSIONS.json").read_text())["files"]
    for name, facts in said.items():
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == facts["sha256"], name
        assert (STATIC / "vendor" / facts["licence_file"]).is_file()
    on_disk = {path.name for path in (STATIC / "vendor").iterdir() if path.suffix in (".js", ".css")}
    assert on_disk == set(said)
    axe = Path(__file__).parent / "axe"
    assert (
        hashlib.sha256((axe / "axe.min.js").read_bytes()).hexdigest()
        == json.loads((axe / "VERSION.json").read_text())["sha256"]
    )


def luminance(colour):
    """As WCAG 2 has it."""
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in (c / 255 for c in colour)]
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_the_hottest_letter_can_be_read_in_both_colours():
    """Behind a surprising token stands a mix of orange and paper; small text needs 4.5 to 1, and the dark had 2.9."""
    light, dark = (STATIC / "lab.css").read_text().split("@media (prefers-color-scheme: dark)")[:2]
    for style in (light, dark):
        found = dict(re.findall(r"--(ink|orange|sheet|hottest): ([^;]+);", style.split("\n}", 1)[0]))
        ink, orange, sheet = (
            [int(found[name][at : at + 2], 16) for at in (1, 3, 5)] for name in ("ink", "orange", "sheet")
        )
        share = float(found["hottest"].rstrip("%")) / 100
        mixed = [share * hot + (1 - share) * cold for hot, cold in zip(orange, sheet, strict=True)]
        low, high = sorted((luminance(ink), luminance(mixed)))
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_pages_have_no_inline_script_and_load_nothing_from_elsewhere():
    for path in STATIC.rglob("*"):
        if path.suffix not in (".html", ".js", ".css") or "vendor" in path.parts:
            continue
        text = path.read_text()
        addresses = [one for one in re.findall(r"https?://[^\s\"'`)]+", text) if "www.w3.org" not in one]
        assert not addresses, path.name
        if path.suffix == ".html":
            assert not re.search(r"<script(?![^>]*src=)|\son\w+=|<style|style=", text), path.name
        # Markup is set in one place alone: the graph, which the server makes of escaped text.
        assert text.count("dangerouslySetInnerHTML") == (1 if path.name == "graph.js" else 0), path.name
        assert "innerHTML =" not in text


# Exports


def wait_for_export(visitor: Visitor, run: str, to: str) -> dict[str, Any]:
    while True:
        found = next(one for one in visitor.get(f"/api/runs/{run}/exports")["exports"] if one["to"] == to)
        if found["state"] != "running":
            return dict(found)
        time.sleep(0.1)


@pytest.fixture
def exports_as_forks(monkeypatch, pellucid_program):
    monkeypatch.setattr(sys, "executable", str(pellucid_program.with_name("python")))


@pytest.mark.usefixtures("exports_as_forks")
def test_an_export_is_the_commands_and_comes_as_one_zip(visitor, pellucid):
    assert visitor.ask("GET", "/api/runs/small/exports/torch.zip")[0] == 404
    code, begun, _ = visitor.ask("POST", "/api/runs/small/exports", {"to": "torch"})
    assert (code, begun["state"]) == (202, "running")
    code, said, _ = visitor.ask("POST", "/api/runs/small/exports", {"to": "onnx"})  # one at a time
    assert (code, said["error"]["what"]) == (400, "small is being exported to torch")
    made = wait_for_export(visitor, "small", "torch")
    assert (made["state"], made["problem"]) == ("finished", "")

    code, content, headers = visitor.ask("GET", "/api/runs/small/exports/torch.zip")
    assert (code, headers["content-disposition"]) == (200, 'attachment; filename="small-torch.zip"')
    assert "sandbox" in headers["content-security-policy"]
    assert len(content) == made["n_bytes"]
    files = zipfile.ZipFile(io.BytesIO(content))
    assert {Path(name).name for name in files.namelist()} >= {"model.py", "weights.safetensors", "sample.py"}
    assert {Path(name).parent.as_posix() for name in files.namelist()} == {"small-torch"}

    said = pellucid("export", "small", "--to", "torch", "--out", "by-hand", "--json", cwd=visitor.folder).stdout
    assert made["check"] == json.loads(said)["check"]
    assert made["check"]["n_inputs"] == 100
    assert f"{made['check']['largest_difference']:.1e} at most" in made["says"]
    for name in ("model.py", "weights.safetensors", "sample.py"):
        assert files.read(f"small-torch/{name}") == (visitor.folder / "by-hand" / name).read_bytes()
    assert not list((visitor.lab.kept / "exports").glob(".tmp-*"))


@pytest.mark.usefixtures("exports_as_forks")
def test_an_export_that_cannot_be_says_why_in_the_commands_words(visitor, pellucid):
    words = ("export", "small", "--to", "gguf", "--json")
    refused = pellucid(*words, cwd=visitor.folder)
    assert refused.returncode == 2
    error = json.loads(refused.stderr)["error"]
    visitor.post("/api/runs/small/exports", {"to": "gguf"})
    made = wait_for_export(visitor, "small", "gguf")
    assert (made["state"], made["problem"]) == ("refused", f"{error['what']}. {error['fix']}.")
    assert visitor.ask("GET", "/api/runs/small/exports/gguf.zip")[0] == 404


@pytest.mark.parametrize("name", ["..", "..%2f..", "small%2f..", "none", "small%00", ".lab"])
def test_no_export_leads_elsewhere(visitor, name):
    assert visitor.ask("POST", f"/api/runs/{name}/exports", {"to": "torch"})[0] in (400, 404)
    assert visitor.ask("GET", f"/api/runs/{name}/exports/torch.zip")[0] in (400, 404)
    for to in ("../../words.txt", "..%2f..", "pickle", "", "torch/../../x"):
        assert visitor.ask("POST", "/api/runs/small/exports", {"to": to})[0] == 400
        assert visitor.ask("GET", f"/api/runs/small/exports/{quote(to)}.zip")[0] == 404


def test_exports_are_bounded(visitor, monkeypatch, tmp_path):
    monkeypatch.setattr(exports, "MOST_WEIGHTS", 10)
    code, said, _ = visitor.ask("POST", "/api/runs/small/exports", {"to": "torch"})
    assert (code, "too much for one zip file" in said["error"]["what"]) == (400, True)
    monkeypatch.setattr(exports, "MOST_KEPT", 25)
    for age, name in enumerate(("new", "newer-than-old", "old")):
        (tmp_path / f"{name}.zip").write_bytes(bytes(10))
        os.utime(tmp_path / f"{name}.zip", (1e9 - age, 1e9 - age))
    exports.ExportProcesses(tmp_path, tmp_path)._drop_oldest()
    assert {path.stem for path in tmp_path.iterdir()} == {"new", "newer-than-old"}


# Numbers


def test_numbers_are_the_command_lines(visitor, pellucid):
    said = json.loads(pellucid("score", "small", "annas", "--json", cwd=visitor.folder).stdout)
    shown = visitor.post("/api/speak/surprise", {"runs": ["small"], "text": "annas"})["runs"][0]
    assert [one["nats"] for one in shown["surprises"]] == [one["nats"] for one in said["surprises"]]
    words = ("sample", "small", "-n", "4", "--seed", "3", "--temperature", "0.8", "--top-p", "0.9", "--json")
    said = json.loads(pellucid(*words, cwd=visitor.folder).stdout)
    asked = {"run": "small", "seed": 3, "count": 4, "temperature": 0.8, "top_p": 0.9}
    shown = visitor.post("/api/speak/samples", asked)
    assert [one["text"] for one in shown["samples"]] == [one["text"] for one in said["samples"]]
    report = open_run(visitor.lab.runs / "small").report()
    card = visitor.get("/api/home")["runs"][0]
    assert (card["loss"], card["simple_loss"]) == (report.rung.dev, report.ladder.best_count.dev)
    said = json.loads(pellucid("derive", "x^2*y", "x=3", "y=2", "--json", cwd=visitor.folder).stdout)
    shown = visitor.post("/api/derive", {"expression": "x^2*y", "values": {"x": 3, "y": 2}})
    assert {one["variable"]: one["exact"] for one in shown["checks"]} == said["gradients"]["output"]
    assert "<style" not in shown["svg"]
    assert "style=" not in shown["svg"]


def test_the_tree_holds_what_decoding_computes(visitor):
    speaker = Speaker(visitor.lab.runs / "small")
    asked = {"run": "small", "prompt": "an", "temperature": 0.7, "top_k": 3}
    tree = visitor.post("/api/speak/tree", asked)
    level = tree["levels"][0]
    assert sum(one["bent"] for one in level["branches"]) == pytest.approx(1)
    assert sum(one["bent"] > 0 for one in level["branches"]) == level["n_kept"] == 3
    assert sum(one["share"] for one in level["branches"]) + level["others_share"] == pytest.approx(1)
    # Another way: its first token is the one that was chosen, and the cost is that of the whole.
    other = level["branches"][1]["token"]
    walked = visitor.post("/api/speak/tree", {**asked, "path": [other]})
    assert walked["levels"][0]["chosen"] == other
    scored = visitor.post("/api/speak/surprise", {"runs": ["small"], "text": walked["text"]})["runs"][0]
    assert sum(one["nats"] for one in scored["surprises"][2:]) == pytest.approx(walked["nats"], abs=1e-9)
    # A slider asks the network for nothing that it has answered.
    speaker.tree("an")
    n_asked = speaker.scores.n_asked
    speaker.tree("an", temperature=0.3, filters={"top_p": 0.9})
    assert speaker.scores.n_asked == n_asked
    beam = visitor.post("/api/speak/tree", {"run": "small", "prompt": "an", "beam": 3})["beam"]
    assert {node["fate"] for node in beam["nodes"]} >= {"best", "cut"}
    assert sorted([share for _, share in beam["found"]], reverse=True) == [share for _, share in beam["found"]]
    drawn = speaker.tree("", seed=5).text
    assert drawn == pellucid.sample(visitor.lab.runs / "small", count=1, seed=5).samples[0].text
    for wrong in (
        {"path": [10**6]},
        {"prompt": "é"},
        {"temperature": -1},
        {"beam": 99},
        {"run": "../small"},
        {"top_p": 0},
    ):
        code, said, _ = visitor.ask("POST", "/api/speak/tree", {"run": "small", **wrong})
        assert code == 400, said


def test_a_beginning_that_is_new_needs_no_new_copy_of_the_network(visitor, monkeypatch):
    """A tree reads the network place by place; for each it was copied once, which took most of the time."""
    copies = []
    copy_once = SequenceModel.for_inference
    monkeypatch.setattr(SequenceModel, "for_inference", lambda model: copies.append(model) or copy_once(model))
    speaker = Speaker(visitor.lab.runs / "small")
    speaker.tree("e")
    n_copies, n_asked = len(copies), speaker.scores.n_asked
    for prompt in ("", "an", "mi"):
        speaker.tree(prompt, beam=2)
    assert speaker.scores.n_asked > n_asked + 5
    assert len(copies) == n_copies


def test_every_unit_that_has_a_formula_comes_to_the_networks_number(visitor):
    network = NetworkNumbers(visitor.lab.runs / "small", "anna")
    known = [module for module in network.modules() if module.has_formula]
    assert {module.kind for module in known} >= {"Linear", "LayerNorm", "SquaredReLU"}
    for module in known:
        for unit in (0, module.output[-1] - 1):
            written = network.unit(module.path, 1, unit)
            assert pellucid.derive(written.expression, written.values).value == pytest.approx(
                written.measured, abs=1e-9
            )
    listed = visitor.get("/api/runs/small/modules?text=anna")
    path = known[-1].path
    shown = visitor.get(f"/api/runs/small/unit?text=anna&path={path}&row=1&unit=0")
    assert shown["measured"] == network.unit(path, 1, 0).measured
    table = visitor.get(f"/api/runs/small/numbers?text=anna&path={path}")
    assert table["made"]["values"][1][0] == shown["measured"]
    assert listed["rows"][1:] == list("anna")
    assert visitor.ask("GET", f"/api/runs/small/unit?path={path}&row=99&unit=0")[0] == 400
    assert visitor.ask("GET", f"/api/runs/small/unit?path={path}&row=x&unit=0")[0] == 400


def test_a_formula_has_a_bias_where_the_layer_has_one(visitor):
    """`combine` of attention has none; its unit is the product alone, and so is what is written over it."""
    network = NetworkNumbers(visitor.lab.runs / "small", "anna")
    linear = {
        module.path: network.numbers(module.path).formula for module in network.modules() if module.kind == "Linear"
    }
    for path, formula in linear.items():
        has_bias = "b" in network.unit(path, 0, 0).symbols
        assert formula == ("y = W x + b" if has_bias else "y = W x")
    assert linear


IMPORTED_AT_THE_START = """
import sys
from pathlib import Path
from pellucid.http.server import open_listener
from pellucid.lab.app import Lab, build_lab
from pellucid.lab.session import Session

listener = open_listener("127.0.0.1", 0)
build_lab(Lab(Path("runs"), Path(), Session(1)), listener)
print(*sys.modules)
"""


def test_packages_that_import_their_parts_are_there_before_threads_ask_for_them(tmp_path):
    """Two threads that begin with a package and with a part of it wait for each other; one is given half a module."""
    root = Path(pellucid.__file__).parent
    packages = {
        name
        for file in root.rglob("__init__.py")
        if (name := ".".join(file.parent.relative_to(root.parent).parts)) not in ("pellucid", "pellucid.cli")
        and re.search(rf"^(from|import) {re.escape(name)}[.]", file.read_text(), re.MULTILINE)
    }
    assert len(packages) > 5
    said = subprocess.run(
        [sys.executable, "-c", IMPORTED_AT_THE_START], cwd=tmp_path, capture_output=True, encoding="utf-8", check=True
    ).stdout.split()
    assert packages <= set(said)
    assert "torch" not in said


def test_x_ray_lessons_and_claims_answer(visitor):
    seen = visitor.post("/api/xray", {"model": "nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(9, 2))"})
    assert "nn.Linear(8, 2)" in seen["failure"]["sentence"]
    assert seen["mended"].endswith("nn.Linear(8, 2))")
    assert visitor.post("/api/xray", {"model": seen["mended"]})["failure"] is None
    lessons = visitor.get("/api/lessons")["lessons"]
    assert {"saturation", "smoothing", "road", "positions"} <= {one["name"] for one in lessons}
    drawn = visitor.post("/api/lessons/draw", {"name": "scalar-rnn", "knobs": {"steps": 3, "weights": [0.5, 2]}})
    assert drawn["svg"] == follow_page(pellucid.draw("scalar-rnn", steps=3, weights=(0.5, 2)).drawing.svg)
    assert visitor.ask("POST", "/api/lessons/draw", {"name": "scalar-rnn", "knobs": {"steps": -3}})[0] == 400
    assert visitor.ask("POST", "/api/lessons/draw", {"name": "loss-curves"})[0] == 400
    claims = visitor.get("/api/claims")
    assert len(claims["claims"]) > 100
    first = claims["claims"][0]
    assert visitor.get(f"/api/claims/{first['id']}")["verdict"] == first["verdict"]
    assert visitor.ask("GET", "/api/claims/nothing")[0] == 400


# Trainings


def read_events(visitor: Visitor, run: str) -> Iterator[dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", visitor.server.address[1], timeout=120)
    session = visitor.lab.session
    connection.request("GET", f"/api/runs/{run}/events", headers={"cookie": f"{session.cookie}={session.secret}"})
    answer = connection.getresponse()
    assert answer.status == 200
    with contextlib.closing(connection):
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


def test_a_training_is_a_process_that_can_be_stopped_and_gone_on_with(visitor):
    """Started by one lab, stopped by another that only sees the folder, and gone on with to its end."""
    options = {"model": "mlp", "size": "tiny", "steps": 2000, "threads": 1, "save_every": 100}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell has it for what a script starts with &
    try:
        run = visitor.post(
            "/api/train/start", {"where": "folder", "name": "words.txt", "run": "stopped", "options": options}
        )["run"]
    finally:
        signal.signal(signal.SIGINT, before)
    assert run == "stopped"
    told: dict[str, list[Any]] = {"metrics": []}
    for news in read_events(visitor, run):
        told["metrics"] += news.get("metrics", [])
        if news.get("baselines"):
            told["baselines"] = news["baselines"]["rungs"]
        if len(told["metrics"]) > 5:
            break
    assert told["baselines"]
    others = TrainingProcesses(visitor.lab.runs, visitor.lab.kept)
    assert find_writer(visitor.lab.runs / run)
    with contextlib.suppress(pellucid.PellucidError):  # it may have ended meanwhile, on a quick machine
        others.stop(run)
    for news in read_events(visitor, run):
        if news.get("state") in ("stopped", "finished"):
            break
    if not open_run(visitor.lab.runs / run).is_finished:
        assert visitor.lab.trainings.ended_with(run) in (None, 143)
        visitor.lab.trainings._started[run].wait(300)
        visitor.post(f"/api/runs/{run}/resume", {})
    last = {}
    for news in read_events(visitor, run):
        last = news
    assert last["state"] == "finished"
    visitor.lab.trainings._started[run].wait(300)
    steps = [one["step"] for one in RunFollower(visitor.lab.runs / run).news()["metrics"]]
    assert steps == list(range(1, len(steps) + 1))
    assert visitor.ask("POST", f"/api/runs/{run}/stop", {})[0] == 400
    assert visitor.ask("POST", f"/api/runs/{run}/resume", {})[0] == 400
    assert (
        visitor.ask("POST", "/api/train/start", {"where": "comes", "name": "names", "options": {"flavour": 1}})[0]
        == 400
    )
    assert visitor.ask("POST", "/api/train/start", {"where": "comes", "name": "names", "run": "../x"})[0] == 400


def test_a_training_takes_no_file_beside_the_data_for_a_module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("torch", "json", "pellucid"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w').close()")
    trainings = TrainingProcesses(tmp_path / "runs", tmp_path / "notes")
    name = trainings.start("names", {"steps": 1, "size": "tiny", "threads": 1})
    while trainings.ended_with(name) is None:
        time.sleep(0.1)
    assert trainings.ended_with(name) == 0, trainings.said(name)
    assert not (tmp_path / "canary").exists()


def test_a_damaged_run_is_told_and_hides_no_other(visitor):
    whole, broken = visitor.lab.runs / "small", visitor.lab.runs / "broken"
    shutil.copytree(whole, broken)
    try:
        (broken / "run.json").write_bytes((broken / "run.json").read_bytes()[:200])
        cards = {card["name"]: card for card in visitor.get("/api/home")["runs"]}
        assert cards["broken"]["state"] == "damaged"
        assert cards["broken"]["problem"]
        assert cards["small"]["state"] == "finished"
        assert visitor.ask("GET", "/api/runs/broken")[0] == 400
    finally:
        shutil.rmtree(broken)


def test_hostile_requests_in_short(visitor):
    """The long version is trust/lab_door.py: 10^5 requests and 1,000 half-open connections."""
    found = attack(visitor.server.address[1], visitor.lab.session, n_requests=300, n_half_open=60, seed=1)
    assert found.n_requests == 300
    assert found.server_errors == []
    assert found.without_headers == []
    assert found.n_unanswered == 0


# The command


def test_the_command_starts_says_its_link_and_ends(tmp_path):
    words = [sys.executable, "-m", "pellucid", "lab", "--no-open"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", cwd=tmp_path
    ) as process:
        assert process.stdout
        link = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", process.stdout.readline())
        assert link
        connection = http.client.HTTPConnection("127.0.0.1", int(link[1]), timeout=60)
        for expected in (303, 200):  # once it lets in; then it shows how to get another
            connection.request("GET", f"/?token={link[2]}")
            answer = connection.getresponse()
            answer.read()
            assert answer.status == expected
            connection.close()
        loaded = Path(f"/proc/{process.pid}/maps")
        if loaded.exists():
            assert "libtorch" not in loaded.read_text()
            assert link[2] not in Path(f"/proc/{process.pid}/cmdline").read_text()
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr
        assert process.stderr.read() == ""


def test_what_the_command_refuses(run_together):
    wide, file, missing = run_together(
        [["lab", "--host", "0.0.0.0"], ["lab", "--runs", "/etc/passwd"], ["lab", "--host", "no such"]]
    )
    assert (wide.code, file.code, missing.code) == (2, 2, 2)
    assert "--i-know" in wide.err
    assert wide.loaded == set()


def test_the_page_of_a_run_that_came_late_is_told_everything(visitor):
    follower = RunFollower(visitor.lab.runs / "small")
    begun = time.monotonic()
    news = follower.news()
    assert [one["step"] for one in news["metrics"]] == [
        one.step for one in open_run(visitor.lab.runs / "small").report().steps
    ]
    assert {"plan", "run", "baselines", "state", "evaluations"} <= set(news)
    assert "health_findings" not in news  # nobody waits for torch, which judges them
    last = follower.news()
    assert (set(last), last["state"]) == ({"health_findings", "state", "is_over"}, "finished")
    assert follower.news() == {}
    assert time.monotonic() - begun < 60  # not a measurement: it must not wait for anything


@pytest.fixture
def written(visitor) -> Iterator[RunWriter]:
    """A run that is being written, with one evaluation so far."""
    record = json.loads((visitor.lab.runs / "small" / "run.json").read_text())
    record = {name: value for name, value in record.items() if name not in ("format", "sha256")}
    with RunWriter.create(visitor.lab.runs / "written", record, n_bytes=1_000) as run:
        run.append("evaluations", Evaluation(0, 3.3, 3.4))
        run.flush()
        yield run
    shutil.rmtree(run.path)


def test_all_who_watch_a_run_are_told_everything_by_one_look(visitor, written, monkeypatch):
    looked = []

    class Counted(RunFollower):
        def __init__(self, path: Path) -> None:
            looked.append(path)
            super().__init__(path)

    def next_news(stream: http.client.HTTPResponse) -> dict[str, Any]:
        while not (line := stream.readline()).startswith(b"data: "):
            assert line
        return json.loads(line.removeprefix(b"data: "))

    monkeypatch.setattr(lab_runs, "RunFollower", Counted)
    cookie = {"cookie": f"{visitor.lab.session.cookie}={visitor.lab.session.secret}"}
    connections, watched = [], []
    try:
        for _ in range(3):
            connections.append(http.client.HTTPConnection("127.0.0.1", visitor.server.address[1], timeout=60))
            connections[-1].request("GET", "/api/runs/written/events", headers=cookie)
            watched.append(connections[-1].getresponse())
            news = next_news(watched[-1])
            assert (news["is_anew"], news["evaluations"][0]["dev"]) == (True, 3.4)
        for step in (1, 2):
            written.append("evaluations", Evaluation(step, 3.2, 3.3))
            written.flush()
            for stream in watched:
                assert next_news(stream)["evaluations"][-1]["step"] == step
    finally:
        for connection in connections:
            connection.close()
    assert len(looked) == 1


def test_a_plan_that_changes_takes_back_nothing_that_was_told(visitor, written):
    """Only the first news is everything: a page that began anew at each change of the plan lost the steps before it."""
    follower = RunFollower(written.path)
    assert follower.news()["is_anew"] is True
    written.write("baselines.json", (visitor.lab.runs / "small" / "baselines.json").read_text())
    assert follower.news()["baselines"]["rungs"]  # the folder is there a moment before them
    written.append("replans", Replan(1, 40))
    written.append("evaluations", Evaluation(1, 3.1, 3.2))
    written.flush()
    news = follower.news()
    assert (news["plan"]["steps"], len(news["evaluations"])) == (40, 1)
    assert "is_anew" not in news


def test_looks_inside_are_judged_as_they_come_as_all_at_once(visitor, written):
    (look,) = open_run(visitor.lab.runs / "small").health
    looks = [look, look._replace(step=2), look._replace(step=3)]
    follower, told = RunFollower(written.path), {}
    for one in looks:
        written.append("health", one)
        written.flush()
        told.update(follower.news())
    told.update(follower.news())
    assert told["health_findings"] == as_plain(judge_health(looks))


def test_a_table_without_a_chosen_column_is_shown_with_the_likeliest(tmp_path):
    (tmp_path / "own.csv").write_text("size,kind\n" + "\n".join(f"{i},{'ab'[i % 2]}" for i in range(60)))
    seen = {
        target: preview_data(str(tmp_path / "own.csv"), {"target": target} if target else {}) for target in ("", "size")
    }
    assert (seen[""]["target"], seen[""]["is_proposed"]) == ("kind", True)
    assert (seen["size"]["target"], seen["size"]["is_proposed"]) == ("size", False)


def test_work_that_is_begun_does_not_hold_up_the_end():
    worker, is_begun, may_end = Worker("test"), threading.Event(), threading.Event()

    def work() -> None:
        is_begun.set()
        may_end.wait(60)

    asked = threading.Thread(target=lambda: asyncio.run(worker.do(work)), daemon=True)
    asked.start()
    assert is_begun.wait(60)
    assert len(worker.close()) == 1
    may_end.set()
    asked.join(60)
    assert worker.close() == []
