"""Rows of tables → CSV files, as spreadsheets and csv.reader take them: names may have commas and quotation marks."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pmlda.segmentation import Segmentation
from pmlda.tables import topic_rows
from pmlda.types import Match, Share

TOPICS_HEAD = ("topic", "feature", "wavelength nm", "mean", "standard deviation")
MATCH_HEAD = ("most similar", "spectral angle in degrees")
SHARES_HEAD = ("picture", "topic", "share", "low 90 %", "high 90 %", "pixels", "area", "area unit")


def write_shares(path: Path, segmentation: Segmentation, indices: Iterable[int]) -> None:
    """A line for each of these pictures and each topic; what is not known is left empty."""
    rows = [(segmentation.images[index].name, *share) for index in indices for share in segmentation.shares_of(index)]
    write_table(path, SHARES_HEAD, rows)


def write_topics(path: Path, segmentation: Segmentation) -> None:
    """A line for each topic and each feature, with what the topic is most like if a library was given."""
    rows, best = topic_rows(segmentation.recipe), [each[0] for each in segmentation.matches]
    if not best:
        write_table(path, TOPICS_HEAD, rows)
        return
    n_features = len(segmentation.feature_names)
    matched = ((*row, best[i // n_features].name, best[i // n_features].angle) for i, row in enumerate(rows))
    write_table(path, (*TOPICS_HEAD, *MATCH_HEAD), matched)


def match_record(segmentation: Segmentation) -> dict[str, Any]:
    """The most similar entries of the library for run.json, if one was given."""
    matches = [[each._asdict() for each in best] for best in segmentation.matches]
    return {"matches": matches} if matches else {}


def matches_from_record(record: dict[str, Any]) -> tuple[tuple[Match, ...], ...]:
    """The same from a checked run.json."""
    return tuple(tuple(Match(**each) for each in best) for best in record.get("matches", ()))


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
