"""Model files: everything comes back to the bit; damaged, foreign, future and hostile files give one clear error."""

import io
import json
import os
import zipfile

import numpy as np
import pytest

from pmlda import PMLDA, Gamma, ModelFileError
from pmlda.storage import archive as files
from pmlda.storage import zips
from pmlda.types import Verdict
from tests.problems import PROBLEMS, random_corpus, triangle
from tests.tree_mutations import Archive, npy


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


def test_a_file_without_a_verdict_is_refused(saved):
    damaged = with_json(saved, lambda document: document["content"]["table"]["fitted"]["table"].pop("verdict_"))
    with pytest.raises(ModelFileError, match="verdict_ is None"):
        PMLDA.load(damaged)


def test_uncertainty_survives(fitted, tmp_path):
    _, X, groups = fitted
    model = PMLDA(3, random_state=0).fit(X, groups=groups)
    model.save(tmp_path / "model")
    again = PMLDA.load(tmp_path / "model")
    np.testing.assert_array_equal(again.membership_std_, model.membership_std_)
    np.testing.assert_array_equal(again.membership_interval(), model.membership_interval())


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


def test_numbers_and_texts_beside_arrays_have_a_limit_of_their_own(saved, tmp_path):
    padded = rewritten(saved, lambda entries: entries | {"model.json": entries["model.json"] + b" " * 2**22})
    with pytest.raises(ModelFileError, match="larger than the limit"):
        PMLDA.load(padded)
    with pytest.raises(ValueError, match="Give arrays instead"):
        files.save(tmp_path / "list", {"numbers": list(range(2**20))})
    assert not (tmp_path / "list").exists()


def zip_bomb(path):
    """A small file that would unpack to more than a quarter of a gigabyte."""
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive, archive.open("a", "w") as entry:
        for _ in range(257):
            entry.write(bytes(2**20))


def overlapping(path):
    """Entries that are all made of the same bytes, which are not packed."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("twice", bytes(2**16))
        archive.filelist += [archive.filelist[-1]] * 100


def claim_more(path):
    """An entry that is not packed, and longer than its bytes."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("long", bytes(100))
        archive.filelist[-1].file_size = 2**40


def encrypt(path):
    """An entry that asks for a password."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("secret", bytes(100))
        archive.filelist[-1].flag_bits |= 1


def with_lzma(path):
    with zipfile.ZipFile(path, "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("other", bytes(2**16))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (zip_bomb, "would unpack to 269,"),
        (overlapping, "claim more bytes than it has"),
        (claim_more, "does not have the size that it claims"),
        (encrypt, "packed or encrypted"),
        (with_lzma, "packed or encrypted"),
    ],
)
def test_claims_are_judged_before_anything_is_unpacked(saved, spoil, says, monkeypatch):
    spoil(saved)
    assert saved.stat().st_size < 2**22
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("something was unpacked"))
    with pytest.raises(ModelFileError, match=says):
        PMLDA.load(saved)


def test_models_that_pack_well_can_be_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_UNPACKED_BYTES", 2**16)  # as if the arrays below were thousands of times larger
    monkeypatch.setattr(zips, "MOST_UNPACKED_BYTES", 2**16)
    content = {name: np.zeros(2**12) for name in "abcdef"}
    files.save(tmp_path / "zeros", content)
    assert set(files.load(tmp_path / "zeros")) == set(content)


def test_files_of_a_run_are_never_packed(tmp_path):
    with (tmp_path / "part").open("wb") as stream:
        files.write(stream, {"a": np.zeros(2**16)}, files.PART)
    rewritten(tmp_path / "part", lambda entries: entries)
    with pytest.raises(ModelFileError, match="packed or encrypted"):
        files.load(tmp_path / "part", files.PART)


@pytest.mark.parametrize("kind", [files.MODEL, files.CHECKPOINT])
@pytest.mark.parametrize("array", [np.zeros(3, [("a", "f8")]), np.zeros(3, complex)])
def test_arrays_hold_numbers_and_texts_alone(array, kind, tmp_path):
    with (tmp_path / "a").open("wb") as stream:
        files.write(stream, {"a": np.zeros(3)}, kind)
    Archive(tmp_path / "a").write(tmp_path / "b", Archive(tmp_path / "a").document, **{"content.a": npy(array)})
    with pytest.raises(ModelFileError, match="neither numbers nor texts"):
        files.load(tmp_path / "b", kind)
    with pytest.raises(ValueError, match="which model files do not keep"), (tmp_path / "c").open("wb") as stream:
        files.write(stream, {"a": array}, kind)


def test_a_thousand_million_texts_of_no_length_are_refused(saved):
    stream, whole = io.BytesIO(), Archive(saved)
    np.lib.format.write_array_header_1_0(stream, {"descr": "<U0", "fortran_order": False, "shape": (10**10,)})
    whole.write(saved, whole.document, **{"content.fitted.documents_": stream.getvalue()})
    with pytest.raises(ModelFileError, match="neither numbers nor texts"):
        PMLDA.load(saved)


def test_a_model_that_is_a_pipe_or_a_device_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    for name in ("pipe", "zeros"):
        with pytest.raises(ModelFileError, match="not a regular file"):
            PMLDA.load(tmp_path / name)
        with pytest.raises(ModelFileError, match="not a regular file"):
            files.read_note(tmp_path / name, files.CHECKPOINT)


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


def every_other(value):
    """A change of an array: every other number is this one."""

    def change(array):
        array = array.astype(np.float64)
        array.flat[::2] = value
        return array

    return change


WRONG = [
    ("proportions_", every_other(-0.5), "proportions_ must lie between 0 and 1"),
    ("proportions_", lambda array: 2.0 * array, "proportions_ must"),
    ("scales_", every_other(1e308), "scales_ has"),
    ("scales_", every_other(1e-320), "scales_ has"),
    ("scales_", every_other(np.nan), "scales_ contains NaN"),
    ("document_sizes_", lambda array: array * 0, "document_sizes_ must be whole numbers"),
    ("document_sizes_", lambda array: array * 0 + 2**62, "document_sizes_ has numbers that are too large"),
    ("topic_means_", every_other(1e200), "topic_means_ has numbers as large as"),
    ("topic_means_", lambda array: array + 1e6, "outside the bounds"),
    ("noise_variance_", lambda array: -array, "symmetric and positive definite"),
    ("noise_variance_", lambda array: np.triu(array) + np.eye(2), "symmetric and positive definite"),
    ("memberships_", every_other(1.5), "memberships_ must lie between 0 and 1"),
    ("labels_", lambda array: array + 9, "labels_ has topics that there are not"),
    ("concentrations_", every_other(-1.0), "concentrations_ has values below 0"),
    ("bound_", lambda array: array[0], "bound_ is no list"),
    ("bound_", lambda array: array.astype("U9"), "bound_ is no list"),
    ("refits_.means", every_other(np.inf), "refits_.means contains NaN or infinity"),
    ("refits_.spread", lambda array: -array, "symmetric and positive definite"),
    ("refits_.powers", every_other(1e9), "powers are not between"),
    ("refit_distances_", lambda array: array[0], "refit_distances_ has shape"),
    ("refit_distances_", lambda array: array + 1.0, "refit_distances_ are no distances"),
    ("deviations_", lambda array: array[:0], "deviations_ has shape"),
    ("family_.means.mean", lambda array: array.astype("U9"), "give shape"),
    ("family_.means.covariance", lambda array: -array, "not positive definite"),
    ("family_.means.proposal_mean", lambda array: array[:0], "is not a usable model file"),
    ("family_.means.low", lambda array: array + 100.0, "leave nothing between"),
]


@pytest.fixture(scope="module")
def full_model(tmp_path_factory):
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("model") / "full.pmlda"
    X, groups = rng.normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0), np.repeat([0, 1, 2], 20)
    model = PMLDA(2, random_state=0, n_refits=3, covariance="full", topic_bounds=(-20.0, 30.0))
    model.fit(X, groups=groups).save(path)
    return path


@pytest.mark.parametrize(("name", "change", "says"), WRONG)
def test_fitted_attributes_that_no_fit_leaves_are_refused(full_model, tmp_path, name, change, says):
    """With right digests, so that only the numbers are wrong."""
    whole, key = Archive(full_model), f"content.fitted.{name}"
    changed = npy(change(np.load(io.BytesIO(whole.arrays[key]))))
    whole.write(tmp_path / "m", whole.document, **{key: changed})
    PMLDA.load(full_model)
    with pytest.raises(ModelFileError, match=says) as caught:
        PMLDA.load(tmp_path / "m")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("alpha", {"float": "-0x1p+0"}),
        ("alpha", {"float": "nan"}),
        ("alpha", 10**400),
        ("scale_rate", {"float": (1e308).hex()}),
        ("n_sweeps", 10**30),
        ("engine", "[/bold]"),
        ("engine", ["variational"]),
        ("family", {"table": {}}),
        ("fixed", {"table": {"everything": 1}}),
        ("topic_bounds", ["a", "b"]),
    ],
)
def test_parameters_that_no_fit_takes_are_refused(full_model, tmp_path, name, value):
    whole = Archive(full_model)
    whole.document["content"]["table"]["parameters"]["table"][name] = value
    whole.write(tmp_path / "m", whole.document)
    with pytest.raises(ModelFileError, match="is not a usable model file") as caught:
        PMLDA.load(tmp_path / "m")
    assert len(str(caught.value)) < 600
