"""Model files: everything comes back to the bit; damaged, foreign, future and hostile files give one clear error."""

import io
import json
import os
import zipfile

import numpy as np
import pytest

from pmlda import PMLDA, Gamma, ModelFileError
from pmlda.engines.posterior import dirichlet_interval, dirichlet_std
from pmlda.storage import archive as files
from pmlda.types import Verdict
from tests.problems import PROBLEMS, random_corpus, triangle


@pytest.fixture(scope="module")
def fitted():
    X, groups, _ = random_corpus(PROBLEMS["gaussian isotropic"].family, triangle(), [60, 40])
    return PMLDA(3, engine="paper", n_sweeps=60, random_state=0, alpha=[1.0, 2.0, 0.5]).fit(X, groups=groups), X, groups


@pytest.fixture
def saved(fitted, tmp_path):
    path = tmp_path / "model.pmlda"
    fitted[0].save(path)
    return path


def rewritten(path, change):
    """The same file with its entries changed by a function of (name, bytes)."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in change(entries).items():
            archive.writestr(name, data)
    return path


def with_json(path, change):
    """The same file with its JSON document changed."""

    def edit(entries):
        document = json.loads(entries["model.json"])
        change(document)
        return entries | {"model.json": json.dumps(document)}

    return rewritten(path, edit)


def test_a_loaded_model_gives_the_same_bits(fitted, saved):
    model, X, groups = fitted
    again = PMLDA.load(saved)
    assert again.get_params(deep=False) == model.get_params(deep=False)
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    np.testing.assert_array_equal(again.transform(X, groups=groups), model.transform(X, groups=groups))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.memberships_, model.memberships_)
    np.testing.assert_array_equal(again.documents_, model.documents_)
    assert again.score(X) == model.score(X)
    assert again.acceptance_ == model.acceptance_
    assert again.verdict_ == model.verdict_
    assert type(again.verdict_) is Verdict


@pytest.mark.parametrize(
    ("engine", "n_sweeps", "state"),
    [("variational", 1000, "converged"), ("variational", 3, "not_converged"), ("paper", 6, "too_short")],
)
@pytest.mark.filterwarnings("ignore:The bound was still rising")
def test_files_without_a_verdict_get_the_one_they_would_have_had(engine, n_sweeps, state, fitted, tmp_path):
    _, X, groups = fitted
    model = PMLDA(3, engine=engine, n_sweeps=n_sweeps, random_state=0).fit(X, groups=groups)
    assert model.verdict_.state == state
    model.save(tmp_path / "old")
    with_json(tmp_path / "old", lambda document: document["content"]["table"]["fitted"]["table"].pop("verdict_"))
    assert PMLDA.load(tmp_path / "old").verdict_ == model.verdict_


def test_the_verdict_of_an_earlier_file_is_its_text(saved):
    def to_text(document):
        document["content"]["table"]["fitted"]["table"]["verdict_"] = "Topic means have not mixed."

    verdict = PMLDA.load(with_json(saved, to_text)).verdict_
    assert (verdict.state, str(verdict)) == ("unknown", "Topic means have not mixed.")


def test_files_without_deviations_give_those_of_the_dirichlet(fitted, tmp_path):
    _, X, groups = fitted
    model = PMLDA(3, random_state=0).fit(X, groups=groups)
    model.save(tmp_path / "new")
    again = PMLDA.load(tmp_path / "new")
    np.testing.assert_array_equal(again.membership_std_, model.membership_std_)
    np.testing.assert_array_equal(again.membership_interval(), model.membership_interval())
    old = with_json(
        tmp_path / "new", lambda document: document["content"]["table"]["fitted"]["table"].pop("deviations_")
    )
    again = PMLDA.load(old)
    np.testing.assert_array_equal(again.membership_std_, dirichlet_std(model.concentrations_))
    np.testing.assert_array_equal(again.membership_interval(0.8), dirichlet_interval(model.concentrations_, 0.8))


def test_draws_are_kept_on_request(fitted, saved, tmp_path):
    model, _, _ = fitted
    assert not hasattr(PMLDA.load(saved), "draws_")
    model.save(tmp_path / "with_draws", draws=True)
    for a, b in zip(PMLDA.load(tmp_path / "with_draws").draws_, model.draws_, strict=True):
        np.testing.assert_array_equal(a, b)


def test_family_objects_names_and_string_labels_survive(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.gamma(4.0, np.array([1.0, 5.0])[rng.integers(2, size=80)][:, None], size=(80, 2))
    model = PMLDA(2, family=Gamma(shape=4.0), engine="paper", n_sweeps=20, random_state=0).fit(
        X, groups=["b"] * 30 + ["ä"] * 50
    )
    model.save(tmp_path / "m")
    again = PMLDA.load(tmp_path / "m")
    assert again.family.shape == 4.0
    assert again.documents_.tolist() == ["b", "ä"]
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


def test_a_family_of_ones_own_is_refused_even_under_a_known_name(tmp_path):
    own = type("Gamma", (Gamma,), {})
    X = np.random.default_rng(0).gamma(4.0, size=(30, 2))
    with pytest.raises(ValueError, match="model files do not keep"):
        PMLDA(2, family=own(shape=4.0), engine="paper", n_sweeps=4).fit(X).save(tmp_path / "m")


def test_a_generator_as_random_state_is_no_obstacle(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = PMLDA(2, engine="paper", n_sweeps=4, random_state=np.random.RandomState(3)).fit(X)
    model.save(tmp_path / "m")
    again = PMLDA.load(tmp_path / "m")
    assert again.random_state is None
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


def test_a_truncated_file(saved):
    data = saved.read_bytes()
    for keep in (0, 10, len(data) // 2, len(data) - 1):
        saved.write_bytes(data[:keep])
        with pytest.raises(ModelFileError, match="is not a usable model file"):
            PMLDA.load(saved)


def test_any_flipped_byte_is_noticed_or_harmless(fitted, saved):
    """A byte changed anywhere gives a ModelFileError, or (in the zip's own unused fields) the same model."""
    model, _, _ = fitted
    data = saved.read_bytes()
    noticed = 0
    for position in range(0, len(data), max(1, len(data) // 150)):
        saved.write_bytes(data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :])
        try:
            again = PMLDA.load(saved)
        except ModelFileError:
            noticed += 1
        else:
            np.testing.assert_array_equal(again.topic_means_, model.topic_means_)
    assert noticed > 100


def test_a_tampered_array(saved):
    def tamper(entries):
        name = next(name for name in entries if "topic_means_" in name)
        buffer = io.BytesIO()
        np.save(buffer, np.zeros((3, 3)))
        return entries | {name: buffer.getvalue()}

    with pytest.raises(ModelFileError, match="was changed after it was written"):
        PMLDA.load(rewritten(saved, tamper))


def test_a_file_from_the_future(saved):
    with pytest.raises(ModelFileError, match=r"schema version 99.*install a newer pmlda"):
        PMLDA.load(with_json(saved, lambda document: document.update(schema_version=99)))


@pytest.mark.parametrize("version", [None, "1", 0, 1.5])
def test_a_senseless_version(saved, version):
    with pytest.raises(ModelFileError, match="schema version"):
        PMLDA.load(with_json(saved, lambda document: document.update(schema_version=version)))


def test_another_zip_and_another_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("model.json", json.dumps({"format": "something else"}))
    (tmp_path / "text").write_text("hello")
    for name in ("other.zip", "text"):
        with pytest.raises(ModelFileError, match=r"PMLDA\.save"):
            PMLDA.load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="There is no file"):
        PMLDA.load(tmp_path / "absent")


def test_a_pickle_inside_is_never_opened(saved, tmp_path):
    flag = tmp_path / "opened"

    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(flag),))

    import hashlib

    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb()], dtype=object), allow_pickle=True)

    def plant(entries):
        document = json.loads(entries["model.json"])
        name = next(iter(document["sha256"]))
        document["sha256"][name] = hashlib.sha256(buffer.getvalue()).hexdigest()
        return entries | {"model.json": json.dumps(document), f"{name}.npy": buffer.getvalue()}

    with pytest.raises(ModelFileError, match="Python objects, which are never opened"):
        PMLDA.load(rewritten(saved, plant))
    assert not flag.exists()


def test_entries_are_never_unpacked_beyond_the_limit(saved, monkeypatch):
    monkeypatch.setattr(files, "MOST_ARRAY_BYTES", 2000)
    with pytest.raises(ModelFileError, match="larger than the limit"):
        PMLDA.load(saved)
    monkeypatch.setattr(files, "MOST_JSON_BYTES", 100)
    with pytest.raises(ModelFileError, match="larger than the limit"):
        PMLDA.load(saved)


@pytest.mark.parametrize(
    "content",
    [
        {"table": {"parameters": {"table": {"no_such_parameter": 1}}, "fitted": {"table": {}}}},
        {"table": {"parameters": {"table": {}}, "fitted": {"table": {"fit": 1}}}},
        {"table": {"parameters": {"table": {}}, "fitted": {"table": {}}}},
        {"table": {"parameters": {"table": {"family": {"object": "Popen", "fields": {}}}}, "fitted": {"table": {}}}},
        [1, 2],
    ],
)
def test_content_that_is_no_model(saved, content):
    with pytest.raises(ModelFileError, match="not a usable model file"):
        PMLDA.load(with_json(saved, lambda document: document.update(content=content)))


def test_saving_is_all_or_nothing(fitted, saved, tmp_path, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr(files.json, "dumps", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fitted[0].save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [saved.name]


def test_bad_places_to_save(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        fitted[0].save(tmp_path / "nowhere" / "m")
    with pytest.raises(OSError, match="directory"):
        fitted[0].save(tmp_path)


def test_objects_that_files_do_not_keep(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = PMLDA(2, engine="paper", n_sweeps=4, random_state=0).fit(X)
    model.documents_ = np.array([object()], dtype=object)
    with pytest.raises(ValueError, match="Python objects"):
        model.save(tmp_path / "m")
    model.documents_ = {1, 2}
    with pytest.raises(ValueError, match="model files do not keep"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
