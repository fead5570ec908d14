"""The pictures of attention: every number in a record is computed again here, by loops, formulas or torch itself."""

import base64
import io
import json
import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.tiny_records import tiny_record
from torch.nn import functional

from pellucid.api.draw import draw, drawable
from pellucid.data import Characters
from pellucid.data.pair_vocabularies import LettersToWords
from pellucid.data.prepare import ImagePreparation
from pellucid.data.readers.images import colours_of
from pellucid.figures.charts.matrix import attention_breadth, attention_habit, hundredths
from pellucid.figures.charts.svg import pixel_image
from pellucid.figures.drawings.attention_maps import MOST_TOKENS, draw_attention_maps
from pellucid.figures.drawings.patch_attention import draw_patch_attention
from pellucid.figures.drawings.vit_positions import draw_vit_positions
from pellucid.figures.picture import Picture
from pellucid.layers.positions import POSITIONS
from pellucid.lessons import attention_masks, given_attention, image_patches, position_encodings, road_to_attention
from pellucid.lessons.attention_masks import MaskKnobs
from pellucid.lessons.given_attention import KERNEL, SCALES, GivenAttentionKnobs
from pellucid.lessons.image_patches import ImagePatches
from pellucid.lessons.position_encodings import PositionEncodings, by_distance, new_encoding
from pellucid.lessons.road_to_attention import RoadKnobs
from pellucid.models.catalogue import networks_for
from pellucid.models.examples.configs import ViTConfig
from pellucid.models.examples.vit import ViT
from pellucid.models.sequences.configs import TransformerConfig
from pellucid.models.sequences.transformer import Transformer
from pellucid.records import Attended, AttentionMaps
from pellucid.training.inference.attention_maps import pair_maps, patch_attention, patch_positions, transformer_weights

TIME = MaskKnobs().length


FIGURES = [
    *("attention-maps", "masks", "road", "positions", "hand-set-attention", "convolution-like"),
    *("patches", "patch-attention", "vit-positions", "sensitivity", "scalar-rnn", "token-costs"),
    *("path-length", "parallel-steps", "batch-size"),
]
HOSTILE = "</text><script>alert(1)</script>"


def words_of(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).findall(".//{*}text")]


def titles_of(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).findall(".//{*}title")]


def random_transformer(positions: str, depth: int = 2, n_heads: int = 2) -> Transformer:
    """With weights that are far from even: those of a new network attend to everything alike."""
    torch.manual_seed(0)
    config = TransformerConfig(11, context=80, width=8 * n_heads, depth=depth, n_heads=n_heads, positions=positions)
    model = Transformer(config).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def shown_maps(names: tuple[str, ...], weights: list[torch.Tensor]) -> AttentionMaps:
    layers = tuple(tuple(tuple(map(tuple, head.tolist())) for head in layer[0]) for layer in weights)
    return AttentionMaps("a transformer", (Attended("self-attention", names, names, layers),))


# Weights of a network


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_transformers_weights_make_what_its_attention_puts_out(positions):
    """The heads' values, averaged by the weights, are what each attention gave: fused kernel and all."""
    model = random_transformer(positions)
    tokens = torch.randint(0, 11, (2, 9))
    gone_in, came_out = [], []

    def passed(_: torch.nn.Module, args: tuple[torch.Tensor, ...], out: torch.Tensor) -> None:
        gone_in.append(args[0])
        came_out.append(out)

    hooks = [block.attention.register_forward_hook(passed) for block in model.blocks]
    found = transformer_weights(model, tokens)
    for hook in hooks:
        hook.remove()
    assert [each.shape for each in found] == [(2, 2, 9, 9)] * 2
    for block, weights, stream, out in zip(model.blocks, found, gone_in, came_out, strict=True):
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 9, dtype=torch.float64))
        assert (weights.triu(1) == 0).all()
        values = (stream @ block.attention.project[2].T).unflatten(-1, (2, 8)).transpose(1, 2)
        mixed = (weights @ values).transpose(1, 2).flatten(2)
        torch.testing.assert_close(mixed @ block.attention.combine.weight.T, out, rtol=1e-10, atol=1e-10)


def test_weights_without_positions_are_softmax_of_the_products():
    model = random_transformer("none", depth=1)
    tokens = torch.randint(0, 11, (1, 6))
    stream = functional.layer_norm(model.embedding(tokens), (16,))
    queries, keys = (stream @ model.blocks[0].attention.project[i].T for i in (0, 1))
    for head in range(2):
        part = slice(8 * head, 8 * head + 8)
        scores = queries[0, :, part] @ keys[0, :, part].T / math.sqrt(8)
        scores = scores.masked_fill(torch.ones(6, 6).triu(1).bool(), -math.inf)
        torch.testing.assert_close(transformer_weights(model, tokens)[0][0, head], scores.softmax(-1))


def test_looking_changes_nothing():
    model = random_transformer("rotary")
    tokens = torch.randint(0, 11, (1, 7))
    before = model(tokens)
    transformer_weights(model, tokens)
    assert torch.equal(model(tokens), before)
    assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("name", networks_for("pairs"))
def test_maps_of_pairs_belong_to_what_is_read_and_written(name):
    card = networks_for("pairs")[name]
    torch.manual_seed(1)
    model = card.build(card.tiny).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    vocabulary = Characters.of(["abcdef"])
    seen = pair_maps(model, vocabulary, [3, 1, 2], "a network")
    for part in seen.parts:
        for layer in part.layers:
            for head in layer:
                assert (len(head), len(head[0])) == (len(part.askers), len(part.asked))
                assert [sum(row) for row in head] == pytest.approx([1.0] * len(head))
    assert seen.source.startswith("a network reads 'cab' and writes ")
    spoken = LettersToWords("ab", ["AH", "B", "AY"])  # its tokens are longer than a letter, so that they stand apart
    assert pair_maps(model, spoken, [2, 1, 3], "a network").source.startswith("a network reads 'b a ⏎' and writes ")
    if name == "encoder-decoder":
        encoder, decoder, cross = seen.parts
        assert encoder.askers == cross.asked == ("c", "a", "b")
        assert decoder.askers == cross.askers
        assert decoder.askers[0] == "·"
        sources, tokens = (
            torch.tensor([[3, 1, 2]]),
            torch.tensor([[0, *vocabulary.encode("".join(decoder.askers[1:]))]]),
        )
        found = model.attention_maps(sources, tokens)["cross"]
        assert torch.equal(torch.tensor(cross.layers, dtype=torch.float64), found[:, 0])
    if name == "rnn-encoder-decoder":
        (cross,) = seen.parts
        assert (cross.asked, cross.askers[0]) == (("c", "a", "b"), "·")
        said = draw_attention_maps(seen)
        entropy = -sum(weight * math.log2(weight) for row in cross.layers[0][0] for weight in row) / len(cross.askers)
        assert f"The look is over {2**entropy:.1f} tokens: 2 to the mean entropy." in said.caption
    ElementTree.fromstring(draw_attention_maps(seen).svg)


# What is said of a map


def random_rows(size: int, seed: int) -> torch.Tensor:
    scores = torch.randn(size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return scores.masked_fill(torch.ones(size, size).triu(1).bool(), -math.inf).softmax(-1)


@given(st.integers(2, 9), st.integers(0, 99))
@settings(max_examples=25)
def test_habits_are_the_means_of_diagonals(size, seed):
    weights = random_rows(size, seed)
    wanted = {
        "itself": weights.diagonal()[1:].mean(),
        "the one before": weights.diagonal(-1).mean(),
        "the first": weights[1:, 0].mean(),
    }
    found = attention_habit(weights.tolist())
    assert found.share == pytest.approx(max(wanted.values()).item())
    assert wanted[found.place].item() == pytest.approx(found.share)
    assert found.even == pytest.approx(sum(1 / n for n in range(2, size + 1)) / (size - 1))
    entropies = torch.distributions.Categorical(weights[1:] + 1e-300).entropy()
    assert attention_breadth(weights.tolist()) == pytest.approx(2 ** (entropies.mean().item() / math.log(2)))


def test_every_weight_of_a_short_input_is_written_into_its_square():
    model = random_transformer("rotary", depth=1, n_heads=1)
    weights = transformer_weights(model, torch.tensor([[0, 3, 1, 5]]))
    picture = draw_attention_maps(shown_maps(("·", "c", "a", "e"), weights))
    written = [word for word in words_of(picture.svg) if word in {"0", "1", "1.0"} or word.startswith(".")]
    assert written[-16:] == [hundredths(weight) for row in weights[0][0, 0].tolist() for weight in row]
    assert f"{max(weights[0][0, 0, 3]):.1%}"[:3] in next(
        title for title in titles_of(picture.svg) if "e looks" in title
    )


def test_seventy_tokens_are_cut_to_the_last_and_it_is_said():
    model = random_transformer("rotary", depth=6, n_heads=6)
    tokens = torch.randint(0, 11, (1, 70))
    names = tuple("abcdefghijk"[token] for token in tokens[0].tolist())
    picture = draw_attention_maps(shown_maps(names, transformer_weights(model, tokens)))
    assert f"Drawn: the last {MOST_TOKENS} of 70 tokens; all of them are in the numbers above." in picture.caption
    assert "Drawn: 2 of 6 layers and 4 of 6 heads, evenly from the first to the last." in picture.caption
    root = ElementTree.fromstring(picture.svg)
    assert float(root.get("width", "0")) < 1600
    assert float(root.get("height", "0")) < 1200
    labels = [word for word in words_of(picture.svg) if len(word) == 1 and word in names]
    assert len(labels) == 8 * MOST_TOKENS + 2 * MOST_TOKENS  # above each map, and at the left of each line
    maps = [word for word in words_of(picture.svg) if word.startswith("layer ")]
    assert maps[0] == "layer 1, head 1"
    assert maps[-1] == "layer 6, head 6"


def test_tokens_are_text_and_never_markup():
    names = ("·", HOSTILE, "&amp;", "\n", "\u202e", "a" * 50)
    weights = [random_rows(6, 0)[None, None]]
    picture = draw_attention_maps(shown_maps(names, weights))
    assert "<script" not in picture.svg
    words = words_of(picture.svg)
    assert "</text><s…" in words
    assert "&amp;" in words
    assert "↵" in words
    assert "U+202E" in words
    assert "aaaaaaaaa…" in words


# Masks, the road, positions, and attention that is told what to do


def test_masks_are_what_loops_say():
    def may(name: str, i: int, j: int) -> bool:
        return {
            "none": True,
            "causal": j <= i,
            "local": abs(i - j) <= 1,
            "padding": j < TIME - 2,
            "causal and padding": j <= i and j < TIME - 2,
        }[name]

    seen = attention_masks.measure(MaskKnobs())
    for mask in seen.masks:
        for i in range(TIME):
            can = [may(mask.name, i, j) for j in range(TIME)]
            assert list(mask.seen[i]) == can
            assert list(mask.added[i]) == [0.0 if each else -math.inf for each in can]
            assert mask.weights[i] == pytest.approx([each / sum(can) for each in can])
    caption = attention_masks.draw(seen).caption[1]
    assert caption.startswith(
        "Pairs that may be seen: none 36 of 36, causal 21 of 36, local 16 of 36, padding 24 of 36"
    )


def test_the_road_ends_where_it_is_said():
    seen = road_to_attention.measure(RoadKnobs("bad dab", seed=4))
    picture = road_to_attention.draw(seen)
    weights, average = torch.tensor(seen.weights), torch.tensor(seen.averaging)
    i, j = divmod(int((weights - average).argmax()), 7)
    assert f"position {i + 1} ({'␣' if seen.tokens[i] == ' ' else seen.tokens[i]}) gives {weights[i, j]:.2%}".replace(
        "%", " %"
    ) in " ".join(picture.caption)
    assert "the largest difference is 0." in picture.caption[1]
    ElementTree.fromstring(road_to_attention.draw(road_to_attention.measure(RoadKnobs("<&>\"'", seed=1))).svg)


def test_what_depends_on_the_distance_alone_is_measured():
    for kind in POSITIONS:
        products = new_encoding(kind, length=10, width=8).products
        table = np.array(products)
        spread = max(float(np.ptp(table.diagonal(offset))) for offset in range(-9, 10))
        largest = float(np.abs(table).max())
        assert by_distance(products) == pytest.approx(spread / largest if largest else 0.0)
    kinds = tuple(new_encoding(kind, length=10, width=8) for kind in ("sinusoidal", "index", "alibi"))
    picture = position_encodings.draw(PositionEncodings("10 positions", kinds))
    assert "for sinusoidal and alibi." in picture.caption[1]
    assert picture.caption[2].endswith("index 100 %.")


def test_told_attention_is_as_far_off_as_the_formula_says():
    """Of n orthonormal positions β leaves e^β / (e^β + n - 1) on the one that is asked for."""
    identity, permutation, convolution = given_attention.measure(GivenAttentionKnobs()).attentions
    for attention, order in ((identity, range(TIME)), (permutation, (2, 0, 1, 5, 3, 4))):
        for tried, scale in zip(attention.tried, SCALES, strict=True):
            kept = math.exp(scale) / (math.exp(scale) + TIME - 1)
            assert [row[place] for row, place in zip(tried.weights, order, strict=True)] == pytest.approx([kept] * TIME)
            assert tried.farthest == pytest.approx(1 - kept)
    band = np.array(convolution.wanted)
    assert band[2].tolist() == [0, *KERNEL, 0, 0]
    assert band[0].tolist() == pytest.approx([2 / 3, 1 / 3, 0, 0, 0, 0])
    for tried in convolution.tried:
        assert tried.farthest == pytest.approx(np.abs(np.array(tried.weights) - band).max())
    assert convolution.tried[-1].farthest < 1e-3


# Patches


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
@settings(max_examples=15)
def test_patches_are_drawn_in_reading_order(rows, columns, patch):
    pixels = np.arange(rows * columns * patch * patch, dtype=np.uint8).reshape(rows * patch, columns * patch)
    seen = ImagePatches("an image", colours_of(pixels), patch, 1)
    assert seen.grid == (rows, columns)
    picture = image_patches.draw(seen)
    images = [image.get("href") for image in ElementTree.fromstring(picture.svg).findall(".//{*}image")]
    cut = [
        pixels[y * patch : (y + 1) * patch, x * patch : (x + 1) * patch] for y in range(rows) for x in range(columns)
    ]
    assert [image_colours(str(image)) for image in images] == [colours_of(part) for part in (pixels, *cut)]
    assert f"{rows * columns + 1} tokens" in picture.caption[1]


def image_colours(address: str) -> tuple[tuple[str, ...], ...]:
    """The colours of an image inside a picture, read back."""
    image = Image.open(io.BytesIO(base64.b64decode(address.removeprefix("data:image/png;base64,")))).convert("RGB")
    return tuple(
        tuple("#{:02x}{:02x}{:02x}".format(*image.getpixel((x, y))) for x in range(image.width))
        for y in range(image.height)
    )


def test_an_image_holds_its_colours():
    drawn = ElementTree.fromstring(pixel_image([["#ff8800", "#000000"], ["#0088ff"]], 20, 20))
    assert image_colours(str(drawn.get("href"))) == (("#ff8800", "#000000"), ("#0088ff", "#ffffff"))


@pytest.fixture(scope="module")
def vit() -> ViT:
    torch.manual_seed(2)
    config = ViTConfig((1, 8, 8), (), outputs=3, patch=2, width=8, depth=3, n_heads=2, hidden=8)
    model = ViT(config).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model


def test_what_a_vit_looks_at_is_its_own_attention(vit):
    preparation = ImagePreparation((8, 8), "gray", (100.0,), (50.0,), ("cat", "dog", HOSTILE))
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8)).astype(np.uint8)
    seen = patch_attention(vit, preparation, pixels, "a vit", truth="dog")
    numbers = torch.from_numpy((pixels[None, None].astype(np.float32) - 100) / 50).double()
    maps = vit.attention_maps(numbers)[:, 0]
    for layer, heads in zip(seen.layers, maps, strict=True):
        assert np.array(layer) == pytest.approx(heads[:, 0].detach().numpy())
    through = torch.eye(17, dtype=torch.float64)
    for heads in maps:
        through = (heads.mean(0) + torch.eye(17)) / 2 @ through
    assert seen.rollout == pytest.approx(through[0].tolist())
    assert sum(seen.rollout) == pytest.approx(1)
    chances = vit(numbers, torch.zeros(1, 0)).softmax(-1)[0]
    best = preparation.classes[int(chances.argmax())]
    assert (seen.answer, seen.truth) == (best, "dog")
    assert seen.probability == pytest.approx(chances.max().item())
    picture = draw_patch_attention(seen)
    assert f"It says {best} with {100 * chances.max():.2f} %, and it is dog." in picture.caption[0]
    assert "<script" not in picture.svg
    place = int(through[0, 1:].argmax())
    assert f"comes from row {place // 4 + 1}, column {place % 4 + 1}." in picture.caption[2]


def test_how_alike_positions_are_is_measured_by_loops(vit):
    seen = patch_positions(vit, "a vit")
    table = vit.positions.table.weight[1:].detach()
    near, far = [], []
    for i in range(16):
        for j in range(16):
            cosine = functional.cosine_similarity(table[i], table[j], dim=0).item()
            assert seen.cosines[i][j] == pytest.approx(cosine)
            steps = abs(i // 4 - j // 4) + abs(i % 4 - j % 4)
            if steps == 1:
                near.append(cosine)
            elif steps > 1:
                far.append(cosine)
    assert seen.neighbours == pytest.approx(np.mean(near))
    assert seen.others == pytest.approx(np.mean(far))
    assert len(ElementTree.fromstring(draw_vit_positions(seen).svg).findall(".//{*}image")) == 16


# The command


@pytest.mark.parametrize("name", FIGURES)
def test_tiny_records_draw_the_same_twice(name):
    card = drawable()[name]
    one, other = card.draw(tiny_record(name)), card.draw(tiny_record(name))
    assert isinstance(one, Picture)
    assert one == other
    assert one.caption


@pytest.mark.parametrize(
    "name",
    ["masks", "hand-set-attention", "convolution-like", "road", "patches", "sensitivity", "scalar-rnn", "token-costs"],
)
def test_what_needs_no_training_is_measured(name):
    drawn = draw(name)
    assert isinstance(drawn.record, type(tiny_record(name)))
    ElementTree.fromstring(drawn.drawing.svg)


REFUSED = {
    "draw masks names --out x.svg": "masks is a demonstration and takes neither data nor a run. Leave 'names' out",
    "draw masks --input a --out x.svg": "--input changes nothing in masks",
    "draw masks --patch 2 --out x.svg": "--patch changes nothing in masks",
    "draw attention-maps nosuch --out x.svg": "there is no run called 'nosuch'",
    "draw attention-maps --input= --out x.svg": "--input is empty",
    "draw attention-maps --input a7 --out x.svg": "Give --input other words",
    "draw patches digits --patch 3 --out x.svg": "patches of 3 pixels do not fill 8×8. The nearest side that does is 2",
    "draw patches digits --patch 0 --out x.svg": "patch is 0. The nearest that can be is 1",
    "draw patches names --out x.svg": "names was read as list, and images is wanted",
    "draw patches broken.png --out x.svg": "'broken.png' cannot be read: not a PNG",
    "draw confusion --out x.svg": "confusion is drawn of a run, and none was named",
    "draw accuracy-by-size --out x.svg": "accuracy-by-size is drawn of a comparison, and none was named",
}


def test_what_is_refused_is_told_in_one_line_before_torch_is_loaded(run_together, tmp_path):
    (tmp_path / "broken.png").write_text("no picture")
    for said in run_together(words.split() for words in REFUSED):
        assert (said.code, "torch" in said.loaded) == (2, False), said
        assert said.err.count("\n") == 1
        assert REFUSED[" ".join(said.words)] in said.err
    assert [file.name for file in tmp_path.iterdir()] == ["broken.png"]


def test_a_run_on_pairs_is_drawn_by_the_command(pellucid, tmp_path):
    lines = [f"{a}{b}{c}\t{''.join(sorted({a, b, c}))}" for a in "ABCD" for b in "ABCD" for c in "ABCD"]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines))
    asked = ("--model", "encoder-decoder", "--size", "tiny", "--steps", "5", "--name", "p")
    trained = pellucid("train", "pairs.tsv", "--kind", "pairs", *asked)
    assert trained.returncode == 0, trained.stderr
    said = pellucid("draw", "attention-maps", "p", "--input", "DA", "--out", "x.svg", "--json")
    assert (said.returncode, said.stderr) == (0, "")
    parts = json.loads(said.stdout)["data"]["parts"]
    assert [part["name"].split()[1] for part in parts] == ["encoder's", "decoder's", "the"]
    assert parts[0]["askers"] == ["D", "A"]
    ElementTree.fromstring((tmp_path / "x.svg").read_text())
    asked = ("--model", "rnn-encoder-decoder", "--attention", "none", "--size", "tiny", "--steps", "1", "--name", "q")
    assert pellucid("train", "pairs.tsv", "--kind", "pairs", *asked).returncode == 0
    refused = pellucid("draw", "attention-maps", "q", "--out", "y.svg")
    assert "q is a run of rnn-encoder-decoder without attention. Train one with --attention additive." in refused.stderr
    refused = pellucid("draw", "patch-attention", "p", "--out", "y.svg")
    assert "p is a run of encoder-decoder, and patches are read by vit" in refused.stderr
    assert not (tmp_path / "y.svg").exists()
