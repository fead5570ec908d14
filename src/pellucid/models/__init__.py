"""Models: the first rungs of the ladder count, the others learn.

catalogue.py    every network in one place: its name, the data it reads, its config, its recipe
settings.py     the settings of networks: help, bounds and choices of each
counting/       uniform, unigram, bigram and n-gram models
sequences/      networks that read tokens and score what comes next
examples/       networks that read rows of a table, or images
pairs/          networks that read a source and write a target

from pellucid.models.catalogue import find_network
card = find_network("transformer", "list")
network = card.build(card.of_size("small", vocab_size, context))
"""
