"""The request of a run, which anyone may have written: its seal proves nothing."""

import random
from types import SimpleNamespace

import pytest

from pmlda.errors import RunError
from pmlda.pipeline.request import SEAL, Request, asked_again, read_request
from pmlda.settings import make_settings
from pmlda.storage.digest import digest
from tests.tree_mutations import mutated

TABLE = {
    "id": "0123456789abcdef",
    "images": ["a.png", "b.png"],
    "masks": [None, "mask.png"],
    "several": True,
    "settings": make_settings({"topics": 2}).model_dump(),
    "fingerprints": ["x", "y"],
    "overwrite": False,
    "checkpoint_seconds": 60.0,
    "begun": "2020-01-01T00:00:00+00:00",
}


def folder(table):
    """A run with this request, sealed."""
    return SimpleNamespace(path="run", request=table | {SEAL: digest(table)})


def test_a_sound_request_comes_back():
    assert read_request(folder(TABLE)) == Request(**TABLE)
    assert asked_again(folder(TABLE), Request(**TABLE)).masks == [None, "mask.png"]


@pytest.mark.parametrize(
    "change",
    [
        {"masks": []},
        {"images": []},
        {"several": False},
        {"images": ["a\0.png", "b.png"]},
        {"images": ["a.png", "\ud800"]},
        {"checkpoint_seconds": float("nan")},
        {"checkpoint_seconds": -1.0},
        {"settings": {"topics": [[]]}},
        {"settings": []},
        {"overwrite": "yes"},
        {"more": 1},
    ],
)
def test_a_request_that_makes_no_sense_is_damaged(change):
    with pytest.raises(RunError, match="is damaged"):
        read_request(folder(TABLE | change))


def test_nothing_but_an_error_for_users_comes_of_a_request():
    rng, refused = random.Random(0), 0
    for _ in range(300):
        table = mutated(TABLE, rng)
        try:
            read_request(SimpleNamespace(path="run", request=table | {SEAL: digest(table)}))
        except RunError:
            refused += 1
    assert refused > 150
