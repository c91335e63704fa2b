"""The request of a run, which anyone may have written: its seal proves nothing."""

import random
from types import SimpleNamespace

import pytest

from pmlda.pipeline.request import SEAL, SIGNATURE, Request, asked_again, parse_request
from pmlda.settings import make_settings
from pmlda.storage import account
from pmlda.storage.digest import digest
from tests.tree_mutations import mutated

TABLE = {
    "id": "0123456789abcdef",
    "images": ["a.png", "b.png"],
    "masks": [None, "mask.png"],
    "several": True,
    "settings": make_settings({"topics": 2, "names": ["a", "b"]}).model_dump(),
    "fingerprints": ["x", "y"],
    "replaces": None,
    "checkpoint_seconds": 60.0,
    "begun": "2020-01-01T00:00:00+00:00",
}
OPTIONAL = {"labels": ["labels.png", None], "known": "library.csv", "library": "minerals.csv"}
"""What runs that an earlier version began do not have."""

FOLDER = SimpleNamespace(path="run")


def read(table):
    """The request in a table that was sealed by somebody who cannot sign it."""
    table = table | {SIGNATURE: ""}
    return parse_request(table | {SEAL: digest(table)})


def test_a_sound_request_comes_back():
    assert parse_request(Request(**TABLE).sealed()) == Request(**TABLE)
    assert asked_again(FOLDER, Request(**TABLE)).masks == [None, "mask.png"]
    labelled = Request(**TABLE, labels=["labels.png", None])
    assert parse_request(labelled.sealed()) == labelled != Request(**TABLE)
    assert asked_again(FOLDER, labelled).labels == ("labels.png", None)
    knowing = Request(**TABLE, known="library.csv")
    assert parse_request(knowing.sealed()) == knowing != Request(**TABLE)
    assert asked_again(FOLDER, knowing).known == "library.csv"
    comparing = Request(**TABLE, library="library.csv")
    assert parse_request(comparing.sealed()) == comparing != knowing
    assert asked_again(FOLDER, comparing).library == "library.csv"


@pytest.mark.parametrize(
    "change",
    [
        {"masks": []},
        {"images": []},
        {"several": False},
        {"labels": ["labels.png"]},
        {"labels": ["labels.png", "a\0.png"]},
        {"images": ["a\0.png", "b.png"]},
        {"images": ["a.png", "\ud800"]},
        {"checkpoint_seconds": float("nan")},
        {"checkpoint_seconds": -1.0},
        {"settings": {"topics": [[]]}},
        {"settings": []},
        {"replaces": 1},
        {"more": 1},
    ],
)
def test_a_request_that_makes_no_sense_is_damaged(change):
    with pytest.raises((ValueError, TypeError)):
        read(TABLE | change)


def test_a_request_of_somebody_else_is_told_and_has_another_key(monkeypatch):
    with pytest.warns(UserWarning, match="begun by another account"):
        request = read(TABLE)
    key = request.key
    monkeypatch.setattr(account, "_secret", lambda: b"another one")
    assert request.key != key
    assert Request(**TABLE | {"several": True, "id": "1"}).key != request.key


@pytest.mark.filterwarnings("ignore:This run was begun")
def test_nothing_but_an_error_for_users_comes_of_a_request():
    rng, refused = random.Random(0), 0
    for _ in range(300):
        table = mutated(TABLE | OPTIONAL, rng)
        try:
            asked_again(FOLDER, read(table))
        except (ValueError, TypeError):  # which RunFolder.open takes for damage, or errors for users
            refused += 1
    assert refused > 150
