"""Claims on a user's own data: those that are counted answer at once, and what cannot be asked is refused in a line."""

import random

import pytest

from pellucid.api.claims import run_claims
from pellucid.claims.claim import all_claims
from pellucid.claims.running import run_named
from pellucid.errors import PellucidError

TAKE_DATA = {name: claim for name, (_, claim) in all_claims().items() if claim.takes_data}
# The kind of data that a claim is asked of, by the set that it uses by itself.
KINDS = {"names": "list", "copy-back": "list", "manual": "text", "digits": "images", "transactions": "table"}
KINDS["incomes"] = "table"
COUNTED = [name for name, claim in TAKE_DATA.items() if claim.kind in ("arithmetic", "proof")]
TABLES = [name for name, claim in TAKE_DATA.items() if claim.knobs().data in ("transactions", "incomes")]


def kind_of(name: str) -> str:
    return KINDS[str(TAKE_DATA[name].knobs().data).split(":")[0]]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Small data of every kind, and some of no use; a symbol of the list only ever ends an item."""
    from PIL import Image

    folder, rng = tmp_path_factory.mktemp("data"), random.Random(1)
    words = ["".join(rng.choices("abcdeilnors", k=rng.randint(2, 9))) for _ in range(300)]
    rows = [f"{rng.lognormvariate(3, 1):.2f},{rng.choice('xyz')},2024-{1 + at // 40:02}-01" for at in range(400)]
    texts = {
        "list.txt": "\n".join([*words, "nidoran♀", "flabébé"]) + "\n",
        "table.csv": "size,tier,date\n" + "\n".join(rows) + "\n",
        "words.csv": "name,tier\n" + "\n".join(f"{word},{word[0]}" for word in words) + "\n",
        "tiny.csv": "a,b\n1,2\n3,4\n",
        "two.txt": "anna\nbob\n",
        "same.txt": "anna\n" * 200,
        "short.txt": "the cat sat on the mat.",
        "empty.txt": "",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "junk.bin").write_bytes(rng.randbytes(3000))
    for at in range(6):
        (folder / "images" / "ab"[at % 2]).mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 40 * at).save(folder / "images" / "ab"[at % 2] / f"{at}.png")
    return folder


WRONG = {
    "list": ("missing.txt", "empty.txt", "two.txt", "same.txt", "table.csv", "images", "junk.bin"),
    "text": ("missing.txt", "empty.txt", "short.txt", "table.csv", "images", "junk.bin"),
    "images": ("missing.txt", "empty.txt", "list.txt", "tiny.csv", "images", "junk.bin"),
    "table": ("missing.txt", "empty.txt", "words.csv", "tiny.csv", "images", "junk.bin"),
}


@pytest.mark.parametrize("name", TAKE_DATA)
def test_data_that_a_claim_cannot_be_asked_of_are_refused_in_one_line(name, files):
    for wrong in WRONG[kind_of(name)]:
        if wrong == "words.csv" and TAKE_DATA[name].kind == "training":
            continue
        with pytest.raises(PellucidError) as refused:
            run_named(name, {"data": str(files / wrong)}, 1)
        assert "\n" not in str(refused.value), wrong
        assert "kind=" not in str(refused.value), wrong  # which the command has no option for


@pytest.mark.parametrize("name", COUNTED)
def test_what_is_counted_answers_for_another_list(name, files):
    (result,) = run_claims([name], data=str(files / "list.txt")).results
    assert result.verdict in ("holds", "fails", "only when")
    assert all(number.mean == number.mean for number in result.numbers)  # none of them is NaN


@pytest.mark.parametrize("name", TABLES)
def test_splits_and_tails_answer_for_another_table(name, files):
    (result,) = run_claims([name], data=str(files / "table.csv"), seeds=2).results
    assert result.numbers
    assert all(number.mean == number.mean for number in result.numbers)


def test_a_family_is_asked_of_data_as_far_as_it_can_be(pellucid, files):
    found = run_claims(["likelihood-and-smoothing"], data=str(files / "list.txt"))
    family, _ = all_claims()["nll-non-negative"]
    assert [one.id for one in found.results] == [claim.id for claim in family.claims if claim.takes_data]
    assert len(found.results) < len(family.claims)
    refused = pellucid("claims", "run", "emma-multigraph", "--data", str(files / "list.txt"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "cannot be asked of data" in refused.stderr


def test_what_a_knob_can_say_is_advised_as_a_knob(pellucid, files):
    done = pellucid("claims", "run", "skip-safeguards-overfitting", "--data", str(files / "table.csv"))
    assert done.returncode == 2
    assert "--knob target=" in done.stderr
