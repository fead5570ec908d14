"""Lessons and graphs of attention: each number held to a closed form, torch, loops or a search."""

import copy
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import special
from scipy.spatial.distance import jensenshannon
from torch import nn
from torch.nn import functional

from pellucid.api.draw import draw
from pellucid.api.drawn_records import _chosen_places
from pellucid.data import open_data
from pellucid.data.kinds import ListData
from pellucid.data.prepare.tokens import Corpus, take_part
from pellucid.errors import PellucidError
from pellucid.figures.drawings.attention_graph import draw_attention_graph
from pellucid.figures.drawings.heads import draw_heads
from pellucid.lessons import heads_and_groups, heads_or_width, score_scale
from pellucid.lessons.heads_and_groups import HeadsAndGroupsKnobs, best_single_head, multi_head
from pellucid.lessons.heads_or_width import HeadsOrWidthKnobs
from pellucid.lessons.lesson import train_small_run
from pellucid.lessons.score_scale import PAIRS, ScoreScaleKnobs
from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.sequences.transformer import Transformer
from pellucid.records import Attended, AttentionGraph, AttentionMaps, HeadStudy
from pellucid.records.plain import as_plain, from_plain
from pellucid.runs import open_run
from pellucid.training.checkpoints import load_network
from pellucid.training.inference.attention_maps import transformer_weights
from pellucid.training.inference.head_study import MOST_JUDGED, compare_heads, each_window, study_heads, switch_head_off
from pellucid.training.rng import torch_rng
from pellucid.training.run import ResumeOptions, reopen_data
from pellucid.training.tasks.sequences import token_losses

# The scale of scores


def test_the_variance_of_scores_is_that_of_the_closed_form() -> None:
    """Seven widths and three deviations; each measured variance has one chance in a million to be 5 deviations off."""
    for deviation in (0.5, 1.0, 2.0):
        study = score_scale.measure(ScoreScaleKnobs(widths=(1, 2, 7, 16, 64, 300, 1024), deviation=deviation))
        for each in study.widths:
            assert each.expected == pytest.approx(each.width * deviation**4)
            assert each.raw.variance / each.expected == pytest.approx(1, abs=5 * each.uncertainty)
            assert each.scaled.variance == pytest.approx(each.raw.variance / each.width)


def test_the_uncertainty_of_a_variance_is_that_of_many_draws() -> None:
    """Of 600 variances the deviation is known to 3 %; 15 % are five of these."""
    n = 64
    for width in (1, 4):
        rng = torch.Generator().manual_seed(width)
        products = torch.randn(2, 600, n, width, generator=rng, dtype=torch.float64).prod(0).sum(-1)
        claimed = math.sqrt((2 + 6 / width) / n)
        assert (products.var(-1) / width).std().item() == pytest.approx(claimed, rel=0.15)
    assert score_scale.measure(ScoreScaleKnobs(widths=(4,))).widths[0].uncertainty == math.sqrt(3.5 / PAIRS)


def test_weights_of_scores_are_those_of_scipy() -> None:
    knobs = ScoreScaleKnobs(widths=(64,), keys=5)
    (found,) = score_scale.measure(knobs).widths
    rng = torch_rng(knobs.seed, 64, "score scale")
    queries, _ = torch.randn(PAIRS, 64, generator=rng), torch.randn(PAIRS, 64, generator=rng)
    scores = (queries[:512].double() @ torch.randn(5, 64, generator=rng).double().T).numpy()
    for each, scale in ((found.raw, 1.0), (found.scaled, 0.125)):
        weights = special.softmax(scale * scores, axis=1)
        assert each.largest == pytest.approx(weights.max(1).mean(), abs=1e-5)
        assert each.entropy == pytest.approx(special.entr(weights).sum(1).mean() / math.log(2), abs=1e-5)
        slopes = [torch.func.jacrev(lambda row: row.softmax(-1))(torch.tensor(row)).trace() for row in scale * scores]
        assert each.slope == pytest.approx(float(torch.stack(slopes).mean()), abs=1e-5)
    assert found.raw.largest > 0.8 > 0.5 > found.scaled.largest


# Heads and groups


def test_layers_have_the_parameters_of_torchs() -> None:
    study = heads_and_groups.measure(HeadsAndGroupsKnobs(width=12, heads=3, kernel=5))
    attention = nn.MultiheadAttention(12, 3, bias=False)
    theirs = [
        nn.Conv1d(12, 12, 5, bias=False).weight.numel(),
        nn.Conv1d(12, 12, 5, groups=3, bias=False).weight.numel(),
        3 * nn.Conv1d(12, 12, 1, groups=3, bias=False).weight.numel(),  # what each head reads of its own channels
        attention.in_proj_weight.numel(),
        sum(parameter.numel() for parameter in attention.parameters()),
    ]
    assert [layer.parameters for layer in study.layers] == theirs == [720, 240, 144, 432, 576]


def test_heads_of_columns_are_torchs_and_own_channels_are_grouped_projections() -> None:
    rng = torch.Generator().manual_seed(3)
    x = torch.randn(1, 6, 5, generator=rng, dtype=torch.float64)
    project = torch.randn(3, 6, 6, generator=rng, dtype=torch.float64)
    output = torch.randn(6, 6, generator=rng, dtype=torch.float64)
    theirs = nn.MultiheadAttention(6, 2, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(project.flatten(0, 1))
        theirs.out_proj.weight.copy_(output)
        stream = x.mT
        assert torch.allclose(multi_head(x, project, 2, output).mT, theirs(stream, stream, stream)[0], atol=1e-12)
    own = torch.block_diag(*torch.ones(2, 3, 3, dtype=torch.float64).unbind())
    grouped = [torch.cat([matrix[:3, :3], matrix[3:, 3:]])[:, :, None] for matrix in project]
    q, k, v = (functional.conv1d(x, weight, groups=2)[0] for weight in grouped)
    heads = []
    for rows in (slice(0, 3), slice(3, 6)):
        weights = (k[rows].T @ q[rows] / math.sqrt(3)).softmax(0)
        heads.append(v[rows] @ weights)
    assert torch.allclose(multi_head(x, project * own, 2)[0], torch.cat(heads), atol=1e-12)


def test_what_reads_what_is_found_by_differences_too() -> None:
    """The convolution in groups is drawn again, and each channel of its input nudged."""
    knobs = HeadsAndGroupsKnobs(width=4, heads=2, kernel=3)
    study = heads_and_groups.measure(knobs)
    rng = torch_rng(knobs.seed, 0, "heads and groups")
    x = torch.randn(1, 4, 6, generator=rng, dtype=torch.float64)
    weight = torch.randn(4, 4, 3, generator=rng, dtype=torch.float64) / math.sqrt(12)
    weight = weight[:, :2] * math.sqrt(2)
    squares = torch.zeros(4, 4, dtype=torch.float64)
    for channel in range(4):
        for time in range(6):
            nudged = x.clone()
            nudged[0, channel, time] += 1e-3
            moved = functional.conv1d(nudged - x, weight, padding=1, groups=2) / 1e-3
            squares[:, channel] += moved[0].square().sum(-1)
    reads = torch.tensor(study.layers[1].reads, dtype=torch.float64)
    assert torch.allclose(reads, (squares / squares.max()).sqrt(), atol=1e-9)
    assert [layer.outside for layer in study.layers[1:3]] == [0.0, 0.0]
    assert [layer.bend for layer in study.layers[:2]] == [0.0, 0.0]
    assert min(layer.bend for layer in study.layers[2:]) > 0.05


@pytest.mark.parametrize(("heads", "kernel"), [(1, 3), (2, 1), (4, 5)])
def test_heads_can_be_a_convolution_in_groups(heads: int, kernel: int) -> None:
    study = heads_and_groups.measure(HeadsAndGroupsKnobs(heads=heads, kernel=kernel))
    assert study.fixed_off < 1e-12
    assert study.shifts_off < 1e-12
    assert (study.one_head == 1) == (kernel == 1)


def test_the_best_single_head_is_the_best_of_a_search() -> None:
    rng = torch.Generator().manual_seed(1)
    for _ in range(5):
        kernel = torch.randn(2, 2, 3, generator=rng, dtype=torch.float64)
        flat = kernel.flatten(0, 1)
        tried = torch.rand(40_000, 3, generator=rng, dtype=torch.float64).sub(0.05).clamp(min=0)
        tried = tried / tried.norm(dim=1, keepdim=True).clamp(min=1e-9)
        found = ((flat @ tried.T).square().sum(0).max() / flat.square().sum()).item()
        assert found <= best_single_head(kernel) + 1e-9
        assert found == pytest.approx(best_single_head(kernel), abs=2e-3)


def test_heads_and_groups_that_do_not_fit_are_refused() -> None:
    for knobs in ({"width": 9, "heads": 4}, {"kernel": 4}):
        with pytest.raises(PellucidError, match="cannot be"):
            HeadsAndGroupsKnobs(**knobs)


# Who hears whom


def rows(n: int, m: int, seed: int, is_causal: bool) -> tuple[tuple[float, ...], ...]:
    scores = 2 * torch.randn(n, m, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    if is_causal:
        scores = scores.masked_fill(torch.ones(n, m).triu(1).bool(), -math.inf)
    return tuple(map(tuple, scores.softmax(-1).tolist()))


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("least", [0.0, 0.1, 0.5])
def test_an_arrow_goes_from_who_is_heard_to_who_hears(is_causal: bool, least: float) -> None:
    names = tuple("abcdef")
    weights = rows(6, 6, 1, is_causal)
    part = Attended("self-attention", names, names, ((rows(6, 6, 2, is_causal), weights),))
    drawn = draw_attention_graph(AttentionGraph(AttentionMaps("A network", (part,)), (0,), (1,), least))
    wanted = {
        f"{names[i]} (place {i + 1}) hears {names[j]} (place {j + 1})": weights[i][j]
        for i in range(6)
        for j in range(6)
        if i != j and weights[i][j] > 0 and weights[i][j] >= least
    }
    titles = [title.text or "" for title in ElementTree.fromstring(drawn.svg).findall(".//*[@class='edge']/{*}title")]
    found = {title.rpartition(": ")[0]: float(title.rpartition(": ")[2].removesuffix(" %")) for title in titles}
    assert found == pytest.approx({name: 100 * weight for name, weight in wanted.items()}, abs=0.0051)
    heard = [sum(weights[i][j] for i in range(6) if i != j) for j in range(6)]
    most = max(range(6), key=heard.__getitem__)
    assert f"Heard most: {names[most]} at place {most + 1}, {100 * max(heard) / sum(heard):.2f} %" in drawn.caption[1]
    assert f"hold {100 * sum(wanted.values()) / sum(heard):.2f} %".replace("100.00", "100") in drawn.caption[1]


def test_where_another_sequence_is_asked_all_of_it_is_drawn() -> None:
    part = Attended("what the decoder asks", ("x",), tuple("ab"), ((((0.25, 0.75),),),))
    drawn = draw_attention_graph(AttentionGraph(AttentionMaps("A network", (part,)), (0,), (0,), 0.0))
    root = ElementTree.fromstring(drawn.svg)
    assert len(root.findall(".//*[@class='vertex']")) == 3
    assert len(root.findall(".//*[@class='edge']")) == 2
    assert "Heard most: b at place 2, 75.00 % of it." in drawn.caption[1]


def test_nobody_hears_another() -> None:
    alone = Attended("self-attention", ("a",), ("a",), ((((1.0,),),),))
    drawn = draw_attention_graph(AttentionGraph(AttentionMaps("A network", (alone,)), (0,), (0,), 0.1))
    assert drawn.caption[1] == "Nobody hears another."


def test_a_graph_of_a_head_that_is_not_there_is_refused() -> None:
    for options, said in (({"least": 1.5}, "least is 1.5"), ({"head": 0}, "head is 0"), ({"layer": -1}, "layer is -1")):
        with pytest.raises(PellucidError, match=said):
            draw("attention-graph", **options)
    with pytest.raises(PellucidError, match="head is 3, and this network has 2"):
        _chosen_places("head", 3, 2)
    assert _chosen_places("head", 2, 2) == (1,)
    assert _chosen_places("layer", None, 5) == (0, 4)


# Heads switched off, and how unlike they are


def busy_transformer() -> Transformer:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(7, context=12, width=12, depth=2, n_heads=3)).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def test_a_head_that_is_switched_off_hands_on_zeros() -> None:
    """Beside heads written out, of which one is left out."""
    model = busy_transformer()
    attention = model.blocks[1].attention
    stream = torch.randn(2, 5, 12, dtype=torch.float64)
    angles = model.positions.angles(0, 5).double()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    queries, keys, values = attention.project_heads(stream, angles)
    for off in range(3):
        wanted = torch.zeros(2, 5, 12, dtype=torch.float64)
        for head in {0, 1, 2} - {off}:
            scores = queries[:, head] @ keys[:, head].mT / 2
            weights = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf).softmax(-1)
            wanted += weights @ values[:, head] @ attention.combine.weight[:, 4 * head : 4 * head + 4].T
        with torch.no_grad(), switch_head_off(attention, off):
            assert torch.allclose(attention(stream, angles), wanted, atol=1e-12)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("has_boundary", [True, False])
def test_entropy_and_divergence_are_scipys(has_boundary: bool) -> None:
    model = busy_transformer()
    stream = [0, 3, 1, 0, 2, 2, 5, 6, 0, 4, 0] if has_boundary else [1, 5, 2, 2, 6, 3, 4, 1, 1, 0, 2, 5]
    part = Corpus(np.array(stream, np.uint8), has_boundary)
    windows = [window.tolist() for window in each_window(part, context=4)]
    assert windows == (
        [[0, 3, 1], [0, 2, 2, 5, 6], [0, 4]] if has_boundary else [[1, 5, 2, 2], [6, 3, 4, 1], [1, 0, 2]]
    )
    entropies, even, distances = compare_heads(model, part, context=4)
    own, apart, evens = [[] for _ in range(6)], {}, []
    for window in windows:
        weights = torch.cat([one[0] for one in transformer_weights(model, torch.tensor([window]))]).numpy()
        for query in range(1, len(window)):
            evens.append(math.log2(query + 1))
            for a in range(6):
                own[a].append(special.entr(weights[a, query]).sum() / math.log(2))
                for b in range(6):
                    apart.setdefault((a, b), []).append(
                        jensenshannon(weights[a, query], weights[b, query], base=2) ** 2
                    )
    assert entropies == pytest.approx([np.mean(each) for each in own])
    assert even == pytest.approx(np.mean(evens))
    for (a, b), found in apart.items():
        assert distances[a][b] == pytest.approx(np.nanmean(found), abs=1e-9)


def test_the_heads_of_a_run_are_those_of_its_dev_side(tmp_path: Path) -> None:
    """A small run, and each head's columns set to 0 in a copy, judged token by token."""
    asked = {"model": "transformer", "size": "tiny", "threads": 1, "batch_size": 64}
    names = open_data("names")
    assert isinstance(names, ListData)
    (tmp_path / "names.txt").write_text("\n".join(names.items[:1500]) + "\n")
    with train_small_run({**asked, "steps": 1}, seed=1, data="copy-back:n=100,length=10") as (_, folder):
        run = open_run(folder)
        with pytest.raises(PellucidError, match="Heads are switched off in a transformer of a list or a text"):
            study_heads(run)
    small = {**asked, "steps": 60, "start": "scratch"}
    with train_small_run(small, seed=1, data=str(tmp_path / "names.txt")) as (report, folder):
        run = open_run(folder)
        study = study_heads(run)
        model, _ = load_network(run)
        task = reopen_data(run, ResumeOptions())
    trained = next(rung for rung in report.ladder.rungs if not rung.is_counted)
    assert [(one.layer, one.head) for one in study.heads] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    part = take_part(task.parts["dev"], MOST_JUDGED)
    whole = token_losses(model, part, task.context)
    assert study.loss == pytest.approx(whole.mean())
    assert study.loss == pytest.approx(trained.dev)
    for one in study.heads:
        other = copy.deepcopy(model)
        with torch.no_grad():
            other.core.blocks[one.layer].attention.combine.weight[:, 8 * one.head : 8 * one.head + 8] = 0
        losses = token_losses(other, part, task.context)
        assert one.loss == pytest.approx(losses.mean())
        assert one.rise == pytest.approx((losses - whole).mean(), abs=1e-9)
        items = np.add.reduceat(losses - whole, part.starts)
        deviation = np.std(items - one.rise * np.diff(part.starts, append=len(losses)), ddof=1)
        error = 1.96 * deviation * math.sqrt(len(items)) / len(losses)
        assert (one.high - one.low) / 2 == pytest.approx(error, rel=0.03, abs=1e-4)
        assert one.high > one.low
    assert from_plain(HeadStudy, as_plain(study)) == study
    assert draw_heads(study).title == "What the 4 heads of a transformer are good for"


# One head or many


def test_parameters_are_those_of_the_closed_form_and_of_torch() -> None:
    study = heads_or_width.measure(HeadsOrWidthKnobs(width=16, heads=(1, 2, 8), wide=32, steps=1, repeats=1))
    assert {split.parameters for split in study.splits} == {2 * 27 * 16 + 12 * 2 * 16 * 16}
    theirs = nn.MultiheadAttention(32, 8, bias=False)
    counted = sum(parameter.numel() for parameter in theirs.parameters())
    assert {split.attention_parameters for split in study.splits} == {counted} == {4 * 32 * 32}
    assert [split.weights for split in study.splits] == [heads * 128 * 128 for heads in (1, 2, 8)]
    assert "2 · 27 · 16 + 12 · 2 · 16² = 7,008, the same however many heads" in heads_or_width.draw(study).caption[0]


def test_the_best_loss_of_copying_is_that_of_guessing_the_first_symbols() -> None:
    """Whoever knows the rule guesses the first three of twenty symbols, and has the other ten tokens for certain."""
    study = heads_or_width.measure(HeadsOrWidthKnobs(data="copy-back", width=8, heads=(1,), wide=8, steps=1, repeats=1))
    (item, *_) = open_data("copy-back:n=4000,k=3,n_symbols=20,length=12", kind="list").items
    known = [0.0 if place >= 3 else math.log(20) for place in range(len(item) + 1)]
    assert study.best == pytest.approx(sum(known) / len(known))
    assert all(item[place] == item[place - 3] for place in range(3, len(item)))
    with pytest.raises(PellucidError, match="which 3 heads cannot share in pairs"):
        HeadsOrWidthKnobs(heads=(3,))
