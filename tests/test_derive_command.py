"""`pellucid derive` as a user meets it."""

import json
import re

import pytest

SIGMOID = ("derive", "1/(1+exp(-(w0*x0+w1*x1+w2)))", "w0=2", "x0=-1", "w1=-2", "x1=-2", "w2=-3")
GRADIENTS = {"w0": -0.196612, "x0": 0.393224, "w1": -0.393224, "x1": -0.393224, "w2": 0.196612}


def test_the_sigmoid_neuron_is_told_from_end_to_end(pellucid):
    run = pellucid(*SIGMOID)
    assert run.returncode == 0
    assert run.stderr == ""
    assert "= 0.268941" in run.stdout
    for name, gradient in GRADIENTS.items():
        assert re.search(rf"^  {name} +\S+ +{gradient} +{gradient} ", run.stdout, re.MULTILINE), name
    assert "raise w0 by 0.01 and the output falls by 0.00197" in run.stdout
    assert "-0.0723295 × 2.71828" in run.stdout


def test_brief_is_the_value_and_the_gradients(pellucid):
    assert pellucid(*SIGMOID, "--brief").stdout.splitlines() == [
        "1/(1+exp(-(w0*x0+w1*x1+w2))) = 0.268941",
        *[f"{name}  {gradient:>9}" for name, gradient in GRADIENTS.items()],
    ]


def test_json_carries_every_number(pellucid):
    document = json.loads(pellucid(*SIGMOID, "--json").stdout)
    assert document["outputs"]["output"] == pytest.approx(0.2689414213699951, rel=1e-15)
    assert document["gradients"]["output"] == pytest.approx(GRADIENTS, abs=1e-6)
    assert len(document["passes"][0]["steps"]) == 12
    assert all(abs(check["disagreement"]) < 1e-9 for check in document["checks"])


def test_json_is_strict_even_when_numbers_are_not(pellucid):
    def refuse(word: str) -> float:
        raise AssertionError(word)

    document = json.loads(pellucid("derive", "1/x", "x=0", "--json").stdout, parse_constant=refuse)
    assert document["outputs"] == {"output": "inf"}
    assert document["notes"][0]["text"] == "1/0 at column 1 is infinite"


def test_a_short_listing_says_what_it_left_out_and_steps_shows_it(pellucid):
    many = "+".join(["x"] * 100)
    assert "… and 59 more nodes; --steps shows all" in pellucid("derive", many, "x=1").stdout
    whole = pellucid("derive", many, "x=1", "--steps").stdout
    assert "more" not in whole
    assert "v99" in whole


def test_wrt_chooses_the_inputs(pellucid):
    for words in (["--wrt", "w0,w2"], ["--wrt", "w0", "--wrt", "w2"]):
        document = json.loads(pellucid(*SIGMOID, "--json", *words).stdout)
        assert list(document["gradients"]["output"]) == ["w0", "w2"]


def test_h_shows_three_differences_with_their_errors(pellucid):
    out = pellucid("derive", "x^3", "x=2", "--h", "0.001").stdout
    assert re.search(r"forward +12\.006 +12 +6\.0e-03", out)
    assert re.search(r"backward +11\.994 +12 +-6\.0e-03", out)
    assert re.search(r"central +12 +12 +1\.0e-06", out)


def test_several_outputs_share_what_they_have_in_common(pellucid):
    document = json.loads(pellucid("derive", "s = a*b; p = s^2; q = s + a", "a=2", "b=3", "--json").stdout)
    assert document["outputs"] == {"p": 36.0, "q": 8.0}
    assert document["gradients"] == {"p": {"a": 36.0, "b": 24.0}, "q": {"a": 4.0, "b": 2.0}}
    assert [node["rule"] for node in document["nodes"]].count("multiply") == 1


def test_values_may_be_constant_expressions(pellucid):
    assert "x  0.707107" in pellucid("derive", "sin(x)", "x=pi/4", "--brief").stdout


def test_an_expression_may_begin_with_a_minus_sign(pellucid):
    assert pellucid("derive", "-x^2", "x=2", "--brief").stdout == "-x^2 = -4\nx  -4\n"
    assert pellucid("derive", "--x", "x=2", "--brief").stdout == "--x = 2\nx  1\n"


def test_a_long_expression_comes_by_standard_input(pellucid):
    run = pellucid("derive", "-", "x=0.5", "--brief", stdin="sin(" * 50_000 + "x" + ")" * 50_000 + "\n")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("sin(sin(")


def test_the_picture_and_the_page_are_written_whole(pellucid, tmp_path):
    run = pellucid(*SIGMOID, "--brief", "--svg", "neuron.svg", "--html", "neuron.html")
    assert run.returncode == 0, run.stderr
    assert "neuron.svg" in run.stdout
    assert (tmp_path / "neuron.svg").read_text().rstrip().endswith("</svg>")
    assert (tmp_path / "neuron.html").read_text().rstrip().endswith("</html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["neuron.html", "neuron.svg"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--svg", "thesis.tex"], "does not end in .svg"),
        (["--html", "no/such/page.html"], "there is no folder"),
        (["--svg", "folder.svg"], "is not a regular file"),
        (["--svg", "link.svg"], "is not a regular file"),
        (["--brief", "--json"], "exclude each other"),
        (["--h", "0"], "has to be a finite number above 0"),
        (["--h", "nan"], "has to be a finite number above 0"),
        (["--h", "1e-30"], "is lost beside"),
        (["--h", "large"], "is not a valid float"),
        (["--wrt", "w9"], "is not an input"),
        (["--wrt", ""], "--wrt is empty"),
        (["--brif"], "Perhaps you meant --brief"),
        (["w0=1"], "w0 is given twice"),
        (["w0"], "is not of the form name=number"),
        (["--svg"], "requires an argument"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_bad_options_are_refused_before_anything_is_written(pellucid, tmp_path, words, says):
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "link.svg").symlink_to("elsewhere")
    run = pellucid(*SIGMOID, *words)
    assert run.returncode == 2
    assert run.stdout == ""
    assert says in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.svg", "link.svg"]


def test_an_existing_picture_is_replaced_and_keeps_the_usual_mode(pellucid, tmp_path):
    (tmp_path / "x.svg").write_text("the picture of yesterday")
    assert pellucid("derive", "x*x", "x=3", "--brief", "--svg", "x.svg", umask=0o022).returncode == 0
    assert (tmp_path / "x.svg").read_text().startswith("<svg")
    assert (tmp_path / "x.svg").stat().st_mode & 0o777 == 0o644


def test_a_tty_gets_no_more_than_its_width():
    from pellucid.api.derive import derive
    from pellucid.figures.tables import parts_text
    from pellucid.figures.words.derivation import derivation_parts

    text = parts_text(derivation_parts(derive("1/(1+exp(-(w*x+b)))", w=2, x=1, b=0).record), width=60)
    assert max(map(len, text.splitlines())) <= 60
