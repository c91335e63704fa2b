"""Rows of tables → CSV files, as spreadsheets and csv.reader take them: names may have commas and quotation marks."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pmlda.recipe import Recipe
from pmlda.segmentation import Segmentation
from pmlda.tables import topic_rows
from pmlda.types import Share

TOPICS_HEAD = ("topic", "feature", "wavelength nm", "mean", "standard deviation")
SHARES_HEAD = ("picture", "topic", "share", "low 90 %", "high 90 %", "pixels", "area", "area unit")


def write_shares(path: Path, segmentation: Segmentation, indices: Iterable[int]) -> None:
    """A line for each of these pictures and each topic; what is not known is left empty."""
    rows = [(segmentation.images[index].name, *share) for index in indices for share in segmentation.shares_of(index)]
    write_table(path, SHARES_HEAD, rows)


def write_topics(path: Path, recipe: Recipe) -> None:
    """A line for each topic and each feature."""
    write_table(path, TOPICS_HEAD, topic_rows(recipe))


def write_table(path: Path, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A CSV file; None becomes an empty cell, and bytes of names that are not UTF-8 are spelt out."""
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        table = csv.writer(file)
        table.writerow(head)
        table.writerows(rows)


def share_record(rows: Iterable[Share]) -> list[dict[str, Any]]:
    """The same for run.json, without what is not known."""
    return [{name: value for name, value in row._asdict().items() if value not in (None, "")} for row in rows]


def shares_from_record(picture: dict[str, Any]) -> tuple[Share, ...]:
    """The rows of a picture, from its checked entry in run.json."""
    return tuple(Share(**{"low": None, "high": None} | each) for each in picture.get("shares", ()))
