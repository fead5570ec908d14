"""Runs whose network starts from counting: everything that asks a run for its network gets both as one model."""

import html
import math
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save as safetensors_save

from pellucid.api.run import TrainedRun, sample, score
from pellucid.data import open_data
from pellucid.data.options import DataOptions
from pellucid.data.prepare.tokens import Corpus, take_part
from pellucid.errors import PellucidError
from pellucid.figures.report_page import report_html
from pellucid.figures.show import record_text
from pellucid.figures.words.counting import parts_words
from pellucid.figures.words.ladder import accuracy_words
from pellucid.models.catalogue import find_network
from pellucid.models.counting.fitting import count_loss
from pellucid.models.counting.ngram import NGram, NGramConfig
from pellucid.models.sequences.on_counting import ALONE, COUNTS_FILE, OnCounting, counted_from_tensors, counts_to_bytes
from pellucid.runs import open_run
from pellucid.runs.disk import Damaged
from pellucid.training.callbacks import Callbacks
from pellucid.training.checkpoints import load_network
from pellucid.training.loop import mean_token_loss, next_token_loss, steps
from pellucid.training.options import TrainOptions
from pellucid.training.plan import choose_plan
from pellucid.training.run import train_run
from pellucid.training.run_data import load_vocabulary
from pellucid.training.tasks import open_task
from pellucid.training.tasks.batches import make_batches
from pellucid.training.tasks.sequences import evaluate_loss
from pellucid.training.tensor_files import from_safetensors
from pellucid.training.trainer import build_training

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    names = open_data("names").items
    (folder / "few.txt").write_text("\n".join(names[::60]) + "\n")
    (folder / "many.txt").write_text(" ".join(names[::60]))
    return {
        "list": DataOptions(str(folder / "few.txt"), kind="list"),
        "text": DataOptions(str(folder / "many.txt"), kind="text", context=16),
    }


@pytest.fixture(scope="module")
def tasks(sources):
    return {kind: open_task(options) for kind, options in sources.items()}


@pytest.fixture(scope="module")
def runs(sources, tmp_path_factory):
    """One of each kind, a few steps away from counting."""
    folder = tmp_path_factory.mktemp("runs")
    for kind, options in sources.items():
        asked = TrainOptions(model="transformer", steps=12, size="tiny", threads=1)
        train_run(options, asked, folder / kind, Callbacks())
    return {kind: folder / kind for kind in sources}


@pytest.mark.parametrize("kind", ["list", "text"])
@pytest.mark.parametrize("name", ["mlp", "gru", "transformer"])
def test_before_the_first_step_it_is_as_good_as_counting(tasks, kind, name):
    task, card = tasks[kind], find_network(name, "list")
    config, plan = choose_plan(card, task, TrainOptions(model=name, steps=5, size="tiny"))
    model = build_training(card, config, plan, task).model
    assert isinstance(model, OnCounting)
    found = task.evaluate(model, "dev")
    assert found.loss == pytest.approx(count_loss(task.counts, task.parts["dev"]).nats, abs=1e-5)
    start = task.check_initial_loss(found.loss, plan)
    assert (start.start, start.is_as_expected) == ("from counting", True)
    # On train the counts have not seen what they are asked for: about as bad as on dev, and not as if known by heart.
    by_heart = count_loss(task.counts, task.parts["train"]).nats
    assert task.evaluate(model, "train").loss > by_heart + 0.01


@pytest.mark.parametrize("kind", ["list", "text"])
def test_what_is_evaluated_again_and_again_is_the_same_part_each_time(tasks, kind):
    """Of dev with what was counted there kept, of train row by row, by counts that have not seen it."""
    task, card = tasks[kind], find_network("gru", "list")
    config, plan = choose_plan(card, task, TrainOptions(model="gru", steps=5, size="tiny"))
    model = build_training(card, config, plan, task).model.eval()
    for scale in (0.1, 0.3):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) * scale
        part = take_part(task.parts["dev"], 200)
        assert task.evaluate(model, "dev", 200).loss == pytest.approx(evaluate_loss(model, part, 16).nats, abs=1e-6)
        n_rows = round(take_part(task.parts["train"], 400).n_predicted / task.n_train * task.max_batch_size)
        drawn = make_batches(task.sides.train, n_rows, task.context, 0, by_length=False, counted=task._counted).batch(1)
        with torch.inference_mode():
            at_once = float(next_token_loss(model, drawn))
        assert task.evaluate(model, "train", 400).loss == pytest.approx(at_once, abs=1e-5)


@pytest.mark.parametrize("kind", ["list", "text"])
def test_evaluation_is_the_slow_loop(tasks, kind):
    """Token by token. The counts of a text have read all that stands before; the network a window at most."""
    task, card = tasks[kind], find_network("gru", "list")
    config, plan = choose_plan(card, task, TrainOptions(model="gru", steps=5, size="tiny"))
    model = build_training(card, config, plan, task).model.eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn(parameter.shape, generator=draw) * 0.2
    dev = task.sides.dev
    side = Corpus(dev.tokens[: dev.starts[9] + 1] if dev.has_boundary else dev.tokens[:107], dev.has_boundary)
    tokens, total = side.tokens.astype(np.int64), 0.0
    boundaries = np.flatnonzero(tokens == 0)
    for place in range(len(tokens) - 1):
        first = boundaries[boundaries <= place].max() if side.has_boundary else place // 16 * 16
        with torch.no_grad():
            scores = model.network(torch.tensor(tokens[None, first : place + 1]))[0, -1].double().numpy()
        counted = task.counts.log_probabilities(tokens[None, : place + 1])[0]
        n = task.counts.vocab_size
        logits = (1 + scores[n]) * np.maximum(counted, -30) + scores[:n]
        total += math.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[tokens[place + 1]]
    found = evaluate_loss(model, side, 16)
    assert found.n_tokens == len(tokens) - 1
    assert found.nats == pytest.approx(total / found.n_tokens, abs=1e-5)


@pytest.mark.parametrize("name", ["gru", "transformer"])
def test_what_is_counted_and_learned_is_told_on_the_way_as_in_a_pass_of_its_own(tasks, name):
    """And a network that can leave padding out computes none of it."""
    task, card = tasks["list"], find_network(name, "list")
    config, plan = choose_plan(card, task, TrainOptions(model=name, steps=5, size="tiny"))
    model = build_training(card, config, plan, task).model.eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn(parameter.shape, generator=draw) * 0.2
    read = []
    model.network.embedding.register_forward_hook(lambda module, given, out: read.append(given[0].numel()))
    on_the_way, alone = task.evaluate_whole(model, "dev").parts, task.counted_parts(model)
    n_dev = task.parts["dev"].n_predicted
    assert on_the_way.n_tokens == alone.n_tokens == n_dev
    assert on_the_way == pytest.approx(alone)
    assert task.evaluate_whole(model, "test").parts is None
    if name == "transformer":
        assert sum(read) == 2 * n_dev + task.parts["test"].n_predicted
    else:
        assert sum(read) > 2 * n_dev + task.parts["test"].n_predicted


def test_it_learns_on_top_of_counting(tasks):
    task, card = tasks["text"], find_network("transformer", "list")
    config, plan = choose_plan(card, task, TrainOptions(steps=60, size="tiny", threads=1))
    state = build_training(card, config, plan, task)
    before = task.evaluate(state.model, "train").loss
    for _ in steps(state.model, state.batches, state.optimizer, plan, loss_function=task.loss_function(plan)):
        pass
    assert task.evaluate(state.model, "train").loss < before - 0.01


def test_it_also_learns_to_predict_on_its_own_and_the_loss_that_is_told_is_that_of_both(tasks):
    task, card = tasks["text"], find_network("transformer", "list")
    config, plan = choose_plan(card, task, TrainOptions(steps=60, size="tiny", threads=1))
    state = build_training(card, config, plan, task)
    batch = state.batches.batch(1)
    state.model.eval()  # without dropout, which is another each time
    loss = task.loss_function(plan)(state.model, batch)
    assert loss.item() == pytest.approx(next_token_loss(state.model, batch).item(), abs=1e-6)
    # The slopes of the head: those of both together above, a share of those of its own prediction below.
    [head] = torch.autograd.grad(loss, [state.model.network.head.weight])
    parts, n = state.model.predict(batch.tokens, batch.counted_in_place()), state.model.vocab_size
    for scores, rows, share in ((parts.logits, slice(None, n), 1.0), (parts.alone, slice(n + 1, None), ALONE)):
        [alone] = torch.autograd.grad(
            share * mean_token_loss(scores, batch.targets), [state.model.network.head.weight], retain_graph=True
        )
        torch.testing.assert_close(head[rows], alone[rows])
        assert alone[rows].abs().sum() > 0


@pytest.mark.parametrize("kind", ["list", "text"])
def test_how_often_the_likeliest_token_is_right_is_counted_one_by_one(runs, tasks, kind):
    report, task = open_run(runs[kind]).report(), tasks[kind]
    model = load_network(open_run(runs[kind]))[0].for_inference()
    text = task.sides.vocabulary.decode
    for side in ("dev", "test"):
        tokens = getattr(task.sides, side).tokens.astype(np.int64)
        by_count = [int(task.counts.log_probabilities(tokens[None, :end])[0].argmax()) for end in range(1, len(tokens))]
        counted = torch.from_numpy(task.counts.after_each(tokens))
        # Items are read from their boundary on, a text in windows of 16.
        starts = np.flatnonzero(tokens == 0)[:-1].tolist() if kind == "list" else list(range(0, len(tokens) - 1, 16))
        by_network: list[int] = []
        with torch.inference_mode():
            for start, end in zip(starts, [*starts[1:], len(tokens) - 1], strict=True):
                scores = model(torch.from_numpy(tokens[None, start:end]), counted[None, start:end])
                by_network += scores[0].argmax(-1).tolist()
        counting = next(rung for rung in report.ladder.rungs if rung.name.startswith("Kneser"))
        for rung, guesses in ((counting, by_count), (report.rung, by_network)):
            is_right = [guess == token for guess, token in zip(guesses, tokens[1:], strict=True)]
            whole = (
                wholes(text(tokens.tolist()), is_right)
                if kind == "text"
                else [all(is_right[start:end]) for start, end in zip(starts, [*starts[1:], len(is_right)], strict=True)]
            )
            found = rung.accuracy(side)
            assert found.share_right == pytest.approx(sum(is_right) / len(is_right))
            assert (found.n_tokens, found.n_whole, found.n_whole_right) == (len(is_right), len(whole), sum(whole))
    assert report.ladder.rungs[-1].name == "uniform"
    assert report.ladder.rungs[-1].accuracies == ()  # no token is likelier than another
    assert accuracy_words(report.ladder, report.rung) in record_text(report).replace("\n", " ")


def wholes(text, is_right):
    """Of each word of letters, whether all were right; but for the very first letter, which is not guessed."""
    found, began = [], 0
    for place, letter in enumerate([*text, " "]):
        if letter == " ":
            if began < place and began:
                found.append(all(is_right[began - 1 : place - 1]))
            began = place + 1
    return found


@pytest.mark.parametrize("kind", ["list", "text"])
def test_a_run_keeps_its_counts_and_gives_back_the_same_model(runs, tasks, kind):
    run = open_run(runs[kind])
    assert run.start == "counts"
    model, _ = load_network(run)
    assert isinstance(model, OnCounting)
    tokens = tasks[kind].sides.dev.tokens[:40].astype(np.int64)
    assert np.array_equal(model.counts.after_each(tokens), tasks[kind].counts.after_each(tokens))
    on_dev = evaluate_loss(model, tasks[kind].sides.dev, tasks[kind].context).nats
    network = next(rung for rung in run.report().ladder.rungs if not rung.is_counted)
    assert on_dev == pytest.approx(network.dev, abs=1e-6)
    assert run.report().start.start == "from counting"
    # What of its predictions is counted and what learned, token by token.
    parts = run.report().parts
    side = tasks[kind].sides.dev
    assert parts.n_tokens == side.n_predicted
    assert parts.both == pytest.approx(on_dev, abs=1e-5)
    assert parts.counted == pytest.approx(count_loss(tasks[kind].counts, side).nats, abs=1e-5)
    assert 0 <= parts.changed < 0.5
    # By itself it knows next to nothing after a few steps, and still more than the first one.
    assert parts.both < parts.alone < math.log(tasks[kind].counts.vocab_size)
    assert parts_words(parts) in record_text(run.report()).replace("\n", " ")
    assert str(html.escape(parts_words(parts), quote=True)) in report_html(run.report())


@pytest.mark.parametrize("kind", ["list", "text"])
def test_samples_and_scores_are_of_both_as_one_model(runs, kind):
    run = TrainedRun(runs[kind])
    one, uncached = (run.sample(2, seed=3, **more).record.samples for more in ({}, {"no_cache": True}))
    assert [sample.text for sample in one] == [sample.text for sample in uncached]
    text = "anna" if kind == "list" else "anna bella"
    scored = run.score(text).record
    model, _ = load_network(run.run)
    vocabulary = load_vocabulary(run.run)
    codes = vocabulary.encode(text)
    opening = 0 if kind == "list" else vocabulary.tokens.index(" ")
    read = [opening, *codes, 0] if kind == "list" else [opening, *codes]
    logs = model.double().eval()(torch.tensor([read[:-1]]))[0].log_softmax(-1).detach()
    wanted = -logs[torch.arange(len(read) - 1), read[1:]].sum().item()
    assert scored.nats == pytest.approx(wanted, abs=1e-9)
    # And which part of it is counted, which learned: the counts by themselves, and how far they are trusted.
    alone = model.counts.after_each(np.array(read[:-1]))[np.arange(len(read) - 1), read[1:]]
    assert [one.counted for one in scored.surprises] == pytest.approx(np.exp(alone).tolist())
    assert scored.counted_nats == pytest.approx(-alone.sum())
    gates = model.predict(torch.tensor([read[:-1]])).gate.flatten().tolist()
    assert [one.gate for one in scored.surprises] == pytest.approx(gates)
    assert f"counting alone has {-alone.sum():.4f} nats; what was learned " in str(run.score(text))
    assert "counted  probability" in str(run.score(text))
    assert run.sample(1, beam=3).record.samples[0].nats <= run.sample(1, temperature=0).record.samples[0].nats + 1e-9


@pytest.mark.parametrize(
    "words",
    [
        ("draw", "attention-maps", "list", "--input", "anna"),
        ("draw", "loss-curves", "text"),
        ("inspect", "list"),
        ("doctor", "list"),
        ("doctor", "text"),
    ],
    ids=" ".join,
)
def test_figures_inspection_and_doctor_take_a_run_on_counting(runs, pellucid, tmp_path, words):
    shown = [str(runs.get(word, word)) for word in words]
    done = pellucid(*shown, *(["--out", str(tmp_path / "made.svg")] if words[0] == "draw" else []))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def copied(runs, tmp_path):
    return shutil.copytree(runs["list"], tmp_path / "copy")


def test_counts_that_are_damaged_or_gone_are_refused_in_one_line(copied):
    file = copied / COUNTS_FILE
    content = file.read_bytes()
    for damaged in (content[:-1] + bytes([content[-1] ^ 1]), content[:-1], content[:4], b"", content + b"\0"):
        file.write_bytes(damaged)
        with pytest.raises(Damaged, match=r"^counts\.safetensors of 'copy' is damaged: .* Take it") as error:
            sample(copied)
        assert "\n" not in str(error.value)
    file.unlink()
    with pytest.raises(Damaged, match=r"^counts\.safetensors of 'copy' is damaged: it is missing"):
        score(copied, "anna")


def test_tensors_that_are_no_counts_are_refused(tasks):
    task = tasks["list"]
    order = task.counts.grams.order
    good = from_safetensors(counts_to_bytes(order, 27, task.sides.train), "counts")
    tokens, stored = counted_from_tensors(good, 27, has_boundary=True)
    assert (tokens.tokens == task.sides.train.tokens).all()
    assert stored == order
    strange = {
        "tokens and order are wanted": {"tokens": good["tokens"]},
        "reach from": {**good, "tokens": torch.tensor([0, 27, 0])},
    }
    for words, tensors in strange.items():
        with pytest.raises(ValueError, match=words):
            counted_from_tensors(tensors, 27, has_boundary=True)
    with pytest.raises(PellucidError, match="past the limit"):
        NGram.fit(tokens, NGramConfig(27, 10**6))


def test_without_its_counts_a_run_from_scratch_is_as_before(sources, tmp_path):
    asked = TrainOptions(model="mlp", steps=3, size="tiny", threads=1, start="scratch")
    report = train_run(sources["list"], asked, tmp_path / "run", Callbacks())
    assert not (tmp_path / "run" / COUNTS_FILE).exists()
    assert report.start.start == "unsure"
    assert not isinstance(load_network(open_run(tmp_path / "run"))[0], OnCounting)


def test_what_all_of_dev_does_not_confirm_is_undone(tmp_path, monkeypatch):
    """Evaluations on a part of dev may choose weights by chance; on all of dev counting is then the better model."""
    words = [f"{a}{b}{c}" for a in "abcdef" for b in "ghijk" for c in "lmnop"]
    path = tmp_path / "words.txt"
    path.write_text("\n".join(words))
    # So high a rate that every step makes it worse, and the last weights are taken for the best.
    options = TrainOptions(model="neural-ngram", steps=4, learning_rate=30.0, size="tiny", threads=1)
    monkeypatch.setattr("pellucid.training.trainer.best_evaluation", lambda evaluations: evaluations[-1])
    report = train_run(DataOptions(source=str(path), kind="list"), options, tmp_path / "run", Callbacks())
    network = next(rung for rung in report.ladder.rungs if not rung.is_counted)
    assert report.ending.best_step == 0
    assert report.verdict.reason == "nothing learned"
    assert network.dev == pytest.approx(report.ladder.best_count.dev, abs=1e-6)


def test_first_weights_that_counting_leaves_no_room_for_are_refused_before_anything_is_counted(sources, tmp_path):
    class Told(Callbacks):
        def on_baselines(self, ladder):
            raise AssertionError("it counted first")

    asked = TrainOptions(model="neural-ngram", steps=5, threads=1, network={"init": "normal"})
    with pytest.raises(PellucidError, match="init changes nothing where a network starts from counting"):
        train_run(sources["list"], asked, tmp_path / "run", Told())


@pytest.mark.parametrize(
    ("vocab_size", "held"), [(27, np.uint8), (27, np.int64), (300, np.uint16), (300, np.int32), (70_000, np.int64)]
)
@pytest.mark.parametrize("n", [0, 1, 1003])
def test_counted_tokens_are_written_as_the_library_of_the_format_would(vocab_size, held, n):
    tokens = np.random.default_rng(0).integers(0, 27, n).astype(held)
    stored = torch.from_numpy(tokens.astype(np.uint8 if vocab_size <= 256 else np.int32))
    expected = safetensors_save({"tokens": stored, "order": torch.tensor([5])})
    assert counts_to_bytes(5, vocab_size, Corpus(tokens, has_boundary=False)) == expected
