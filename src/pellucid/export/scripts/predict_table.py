"""Answers for the rows of a CSV file with the network beside this file: python sample.py new.csv."""

import argparse
import csv
import json
import math
from datetime import datetime
from pathlib import Path

import torch

HERE = Path(__file__).parent
FARTHEST = 1e4  # deviations from the mean; a number beyond counts as that


def date_part(text, part):
    """A part of a date such as 2024-12-31T18:30 as a number; nan where it is none."""
    try:
        day = datetime.strptime(text[:10].replace("/", "-").replace(".", "-"), "%Y-%m-%d")
        hour = float(text[11:13] or 0) + float(text[14:16] or 0) / 60
    except ValueError:
        return math.nan
    parts = {"year": day.year, "month": day.month, "day": day.day, "weekday": day.isoweekday(), "hour": hour}
    return float({**parts, "day of year": day.timetuple().tm_yday}[part])


def cell_of(row, column, preparation):
    """What stands in a column of a row, or in the column that this one is made from."""
    if column in row:
        return row[column]
    source, _, part = column.removesuffix(")").rpartition(" (")
    if source in preparation["dates"]:
        return str(date_part(row[source], part))
    return row[source]  # a whole number that is read as a category too


def read_rows(rows, preparation):
    """Rows, each a cell by the name of its column, as the network reads them: numbers and codes."""
    numbers, codes = [], []
    for row in rows:
        found = [float(cell_of(row, one["name"], preparation) or "nan") for one in preparation["numeric"]]
        scaled = [
            0.0 if math.isnan(value) else (value - one["mean"]) / one["deviation"]
            for value, one in zip(found, preparation["numeric"], strict=True)
        ]
        missing = [
            float(math.isnan(value))
            for value, one in zip(found, preparation["numeric"], strict=True)
            if one["has_gaps"]
        ]
        numbers.append([max(-FARTHEST, min(FARTHEST, value)) for value in scaled] + missing)
        cells = [(cell_of(row, one["name"], preparation), one["values"]) for one in preparation["categories"]]
        codes.append([1 + values.index(cell) if cell in values else 0 for cell, values in cells])
    n = len(rows)
    return torch.tensor(numbers, dtype=torch.float32).view(n, -1), torch.tensor(codes, dtype=torch.long).view(n, -1)


@torch.inference_mode()
def predict(network, rows, preparation):
    """An answer for each row: the likeliest class, or a number in the units of the target."""
    scores = network(*read_rows(rows, preparation))
    if preparation["classes"]:
        return [preparation["classes"][place] for place in scores.argmax(1).tolist()]
    return (scores[:, 0].double() * preparation["deviation"] + preparation["mean"]).tolist()


def main():
    import model

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    preparation = json.loads((HERE / "preparation.json").read_text(encoding="utf-8"))
    with open(parser.parse_args().file, newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    for row, answer in zip(rows, predict(model.load(HERE), rows, preparation), strict=True):
        print(answer, *[f"{name}={value}" for name, value in list(row.items())[:3]], sep="\t")


if __name__ == "__main__":
    main()
