"""Printed words, letter by letter. PELLUCID_REWRITE=1 writes them anew; read the difference in review."""

import os
import shlex
from pathlib import Path

import pytest

HERE = Path(__file__).parent

CASES = {
    "help": "--help",
    "derive_help": "derive --help",
    "sigmoid_neuron": 'derive "1/(1+exp(-(w0*x0+w1*x1+w2)))" w0=2 x0=-1 w1=-2 x1=-2 w2=-3',
    "sigmoid_neuron_latex": 'derive "1/(1+exp(-(w0*x0+w1*x1+w2)))" w0=2 x0=-1 w1=-2 x1=-2 w2=-3 --latex',
    "several_outputs": 'derive "s = a*b; p = s^2; q = s + a" a=2 b=3',
    "used_twice": 'derive "x*x" x=3',
    "differences": 'derive "x1*x2 + x3" x1=2 x2=-4 x3=10 --h 0.001',
    "all_functions": 'derive "exp(x)+log(x)+sqrt(x)+sin(x)+cos(x)+tan(x)+asin(x)+acos(x)+atan(x)'
    "+sinh(x)+cosh(x)+tanh(x)+sigmoid(x)+relu(x)+leaky_relu(x)+softplus(x)+gelu(x)+abs(x)+max(x,y)+min(x,y)"
    '+sum(x,y,1)+prod(x,y,2)+where(x,x,y)+x^y-x/y" x=0.5 y=2 --steps',
    "kinks": 'derive "abs(x)+relu(x)+max(x,y)" x=0 y=0',
    "infinite": 'derive "1/x" x=0',
    "no_inputs": 'derive "2^10"',
    "error_no_command": "deriv",
    "error_missing_sign": 'derive "1 + 2x" x=1',
    "error_not_real": 'derive "x + log(y)" x=1 y=-1',
    "error_no_value": 'derive "w*x" w=2',
    "error_json": 'derive "2x" x=1 --json',
    "error_nothing": "derive",
    "train_help": "train --help",
    "compare_help": "compare --help",
    "rate_help": "rate --help",
    "error_no_network": "train --model transfomer",
    "error_no_heads": "train --width 30 --heads 4",
    "error_no_run": "train --resume names",
    "error_useless": "train --model mlp --heads 4",
    "error_two_budgets": "train --minutes 1 --steps 10",
    "split_help": "split --help",
    "split_names": "split names --dry-run",
    "sample_help": "sample --help",
    "sample_names": "sample names -n 5 --seed 1",
    "tokens_help": "tokens --help",
    "tokens_bad_dab": 'tokens "bad dab" --vocabulary "abd "',
    "score_help": "score --help",
    "score_emma": "score names emma",
    "draw_help": "draw --help",
    "draw_list": "draw --list",
    "error_no_data": "split nams",
    "error_unknown_character": "score names Zoë",
    "error_no_figure": "draw bigram-matrx names --out x.svg",
}


@pytest.mark.parametrize("name", CASES)
def test_words(pellucid, name):
    run = pellucid(*shlex.split(CASES[name]))
    said = f"$ pellucid {CASES[name]}\n[exit {run.returncode}]\n{run.stdout}{run.stderr}"
    page = HERE / f"{name}.txt"
    if os.environ.get("PELLUCID_REWRITE") == "1":
        page.write_text(said)
    assert said == page.read_text()


def test_no_page_is_left_over():
    assert {page.stem for page in HERE.glob("*.txt")} == set(CASES)
