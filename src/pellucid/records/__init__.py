"""What was seen: plain records that every table, picture and page is made from. No torch, no drawing.

    decoding     what may come next: branches of a tree, what a beam kept, where a text was copied from
    derivation   of an expression: its numbers, the backward pass, how it was checked
    counting     bigrams, models that count, samples, scored texts
    training     a run: plan, steps, evaluations, looks inside, findings, the ladder, the learning rate
    answers      what a network answered beside what is true, predictions, what attention did
    inspection   a module: its parts, shapes that disagree, what the doctor proved
    splitting    a division into train, dev and test
    live         runs as they stand now, and what came since one last looked
    numbers      one unit of one module: what goes in, what comes out, and the expression that makes it
    tokens       a text as symbols and indices, and what reading it costs
    statements   what is to be said, as a name and facts: notes, reasons, what a layer wanted
    claims       what testing a claim gave
    export       what was written for another tool, and what it was checked with
    sweeps       a search for settings, trial by trial
    plain        records as what JSON can hold, and back

A record does not know how to show itself: `pellucid.figures.show` does. All of them are names of this room too.
"""

# ruff: noqa: F403  # every record is meant, and a list of them beside the files would have to be kept in step by hand
from pellucid.records.answers import *
from pellucid.records.claims import *
from pellucid.records.counting import *
from pellucid.records.decoding import *
from pellucid.records.derivation import *
from pellucid.records.export import *
from pellucid.records.inspection import *
from pellucid.records.live import *
from pellucid.records.numbers import *
from pellucid.records.plain import as_plain as as_plain
from pellucid.records.plain import from_plain as from_plain
from pellucid.records.splitting import *
from pellucid.records.statements import *
from pellucid.records.sweeps import *
from pellucid.records.tokens import *
from pellucid.records.training import *
