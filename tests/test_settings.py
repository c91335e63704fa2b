"""Settings come from code, command line and files alike, and bad ones are refused with one sentence."""

import os
import tomllib

import pytest

from pmlda.errors import SettingsError
from pmlda.settings import Settings, make_settings, parse_assignment, read_settings, write_settings


def test_settings_survive_their_file(tmp_path):
    named = {"topics": 5, "names": ["ä", "b, c", '"d"', "<e>", "f\\"]}
    settings = make_settings(named | {"documents": "slic:100", "alpha": 0.25, "seed": 7})
    file = tmp_path / "settings.toml"
    file.write_text(write_settings(settings), encoding="utf-8")
    assert make_settings(read_settings(file)) == settings
    assert set(tomllib.loads(file.read_text(encoding="utf-8"))) == set(Settings.model_fields)


def test_fixed_values_and_ignored_ones_survive_their_file(tmp_path):
    """Fixed values are a table in one line, so that the settings after them are not part of it."""
    fixed = {"scales": 0.5, "proportions": [0.25, 0.25, 0.5]}
    for more in ({"ignore_saturated": True}, {"ignore_saturated": 4095, "nodata": -9999, "ignore_shadow": 3.5}):
        settings = make_settings({"fixed": fixed, "family": "gamma", "looks": 4} | more)
        file = tmp_path / "settings.toml"
        file.write_text(write_settings(settings), encoding="utf-8")
        assert make_settings(read_settings(file)) == settings
        assert set(settings.ignored_values) == set(more)
    assert make_settings({}).ignored_values == {}


def test_later_tables_win():
    assert make_settings({"topics": 2, "seed": 1}, {"topics": 4}) == make_settings({"topics": 4, "seed": 1})


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"topic": 3}, "Did you mean 'topics'"),
        ({"topics": 0}, "topics = 0"),
        ({"topics": "many"}, "topics = 'many'"),
        ({"scale_rate": -1.0}, "scale_rate = -1.0"),
        ({"seed": -1}, "seed = -1"),
        ({"high": 1.5}, "high = 1.5"),
        ({"low": 0.7}, "leave nothing between"),
        ({"looks": 0}, "looks = 0"),
        ({"n_init": 0}, "n_init = 0"),
        ({"covariance": "topic-ful"}, "covariance = 'topic-ful' cannot be used: Did you mean 'topic-full'"),
        ({"nodata": "zero"}, "nodata = 'zero' cannot be used: .*number"),
        ({"ignore_saturated": "much"}, "ignore_saturated = 'much' cannot be used: .*boolean, .* or .*number"),
        ({"fixed": {"topics": 1.0}}, "fixed = 'topics' cannot be used: Input should be 'scales' or 'proportions'"),
        ({"fixed": {"scales": 0.0}}, "greater than 0"),
        ({"fixed": {"scales": [1.0, 2.0]}}, "give one number, which holds everywhere"),
        ({"fixed": {"proportions": [0.5, 0.5]}}, "for 3 topics: give one number for each"),
        ({"fixed": {"proportions": 0.5}}, "for 3 topics: give one number for each"),
        ({"fixed": {"proportions": [0.5, 0.4, 0.2]}}, "sum to 1.1: they must sum to 1"),
    ],
)
def test_bad_settings_are_named(table, says):
    with pytest.raises(SettingsError, match=says):
        make_settings(table)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("water,sky", ("water", "sky")),
        (' water , "sand, wet" ', ("water", "sand, wet")),
        ('"a ""b""",c', ('a "b"', "c")),
        (["a, b ", "c"], ("a, b", "c")),
        ((), ("topic 1", "topic 2")),
    ],
)
def test_names_are_a_list_or_a_text_with_commas(names, found):
    assert make_settings({"topics": 2, "names": names}).topic_names == found


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["a"], r"has 1 of them for 2 topics: \['a'\]. Give one for each topic"),
        ("a,b,c", "has 3 of them for 2 topics"),
        ("", "has 1 of them for 2 topics"),
        (["a", "a "], "Name 'a' of topic 2 cannot be used: another topic has it too"),
        ("a,", "Name '' of topic 2 cannot be used: it is empty"),
        (["  ", "b"], "Name '' of topic 1 cannot be used: it is empty"),
        (["a", "\x1b[31mred"], "of topic 2 cannot be used: it has characters that cannot be shown"),
        (["a", "b\nc"], "of topic 2 cannot be used: it has characters that cannot be shown"),
        (["a", "\udce9"], "of topic 2 cannot be used: it has characters that cannot be shown"),
        (["x" * 61, "b"], "of topic 1 cannot be used: it has 61 characters, more than 60"),
        ([1, "b"], "names = "),
        (7, "names = 7 cannot be used"),
        ({"a": 1}, "names = "),
    ],
)
def test_names_that_cannot_be_used_are_one_sentence(names, says):
    with pytest.raises(SettingsError, match=says) as refused:
        make_settings({"topics": 2, "names": names})
    assert "\n" not in str(refused.value)


def test_the_longest_settings_can_be_read_again(tmp_path):
    names = [chr(0x1F600 + k % 50) * 30 + chr(0x4E00 + k) * 30 for k in range(255)]
    settings = make_settings({"topics": 255, "names": names})
    (tmp_path / "s.toml").write_text(write_settings(settings), encoding="utf-8")
    assert make_settings(read_settings(tmp_path / "s.toml")) == settings


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"topics = ", "is not TOML"),
        (b"\xff\xfe\x00", "is not TOML"),
        (None, "cannot be read"),
        (b"a = " + b"[\n" * 30_000, "is not TOML: it is nested too deeply"),
        (b"a." * 30_000 + b"a = 1", "a line that is too long for any setting"),
        (b"a = " + b"9" * 5000, "is not TOML: Exceeds the limit"),
        (b" " * (2**17 + 1), "larger than 131,072 bytes"),
    ],
)
def test_bad_files_are_named(tmp_path, content, says):
    file = tmp_path / "settings.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=says):
        read_settings(file)


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("topics=4", {"topics": 4}),
        ("alpha = 0.5", {"alpha": 0.5}),
        ("documents=slic:200", {"documents": "slic:200"}),
        ('features="color+texture"', {"features": "color+texture"}),
    ],
)
def test_assignments_are_toml_or_text(text, table):
    assert parse_assignment(text) == table


def test_an_assignment_needs_an_equals_sign():
    with pytest.raises(SettingsError, match="expected name=value"):
        parse_assignment("topics")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"design_effect": 0.2}, "'auto', or input should be greater than or equal to 1"),
        ({"design_effect": "lots"}, "'auto', or input should be a valid number"),
        ({"refits": 2}, "Give 0, or at least 3"),
    ],
)
def test_how_sure_cannot_be_set_to_nonsense(table, says):
    with pytest.raises(SettingsError, match=says):
        make_settings(table)


@pytest.mark.parametrize("name", ["alpha", "scale_rate", "blend", "design_effect", "fuzzifier", "low"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, [1.0], {"a": 1}, None])
def test_numbers_are_finite(name, value):
    with pytest.raises(SettingsError, match=f"Setting {name} = .* cannot be used") as caught:
        make_settings({name: value})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["sweeps", "sample", "dictionary", "topics", "block"])
def test_whole_numbers_stay_within_reason(name):
    with pytest.raises(SettingsError, match="less than or equal to"):
        make_settings({name: 10**30})


@pytest.mark.parametrize("text", ["topics=" + "[" * 100_000, "topics=" + "9" * 5000])
def test_an_assignment_that_is_no_toml_is_a_text(text):
    assert parse_assignment(text) == {"topics": text.removeprefix("topics=")}


def test_settings_in_a_pipe_or_a_device_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(SettingsError, match="not a regular file"):
            read_settings(path)
