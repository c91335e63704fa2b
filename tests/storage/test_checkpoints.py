"""Fits that are stopped and go on: the same bits as without a break, whatever happens to their checkpoints.

Set PMLDA_KILLS to kill more processes than the few of an ordinary run.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from pmlda import PMLDA, Checkpoint, segment
from pmlda.engines import variational_schedule as schedule
from pmlda.engines import variational_tuning
from pmlda.errors import RunError
from pmlda.peers import make_peer
from pmlda.storage import archive as files
from pmlda.storage.checkpoints import LARGEST_SHARE, Series
from tests import stops
from tests.disks import small_files
from tests.stops import StoppedError, bits, fit_long, stop_after, watched, words

CHOICES = [("gaussian", name) for name in ("isotropic", "diagonal", "full", "topic-diagonal", "topic-full")]
CHOICES += [(name, "isotropic") for name in ("poisson", "additive-poisson", "bernoulli", "gamma", "categorical")]
GROUPS = np.arange(120) % 4
KILLS_EACH = -(-int(os.environ.get("PMLDA_KILLS", "3")) // len(stops.LONG_FITS))

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def fit_in_pieces(monkeypatch, make, X, folder, n_sweeps):
    """The model, and how many times the fit was stopped before it came to an end."""
    for n_stops in range(100):
        try:
            with watched(monkeypatch, stop_after(n_sweeps)):
                return make().fit(X, groups=GROUPS, checkpoint=Checkpoint(folder, every_sweeps=1)), n_stops
        except StoppedError:
            continue
    raise AssertionError("The fit never ends.")


@pytest.mark.parametrize(("family", "covariance"), CHOICES)
@pytest.mark.parametrize("engine", ["gibbs", "paper", "variational"])
def test_stopping_a_run_every_third_sweep_changes_no_bit(engine, family, covariance, monkeypatch, tmp_path):
    # Samples so small that a variational fit goes through all of its stages.
    for name, size in (
        ("TRIAL_WORDS", 20),
        ("TRIAL_SWEEPS", 3),
        ("SAMPLE_WORDS", 60),
        ("DOCUMENT_WORDS", 5),
        ("SETTLED", -1e9),
    ):
        monkeypatch.setattr(variational_tuning, name, size)

    settings = {"family": family, "covariance": covariance, "engine": engine, "n_sweeps": 10, "n_init": 2}
    settings |= {"tol": 1.0} if engine == "gibbs" else {}  # its variational start is short

    def make():
        return PMLDA(3, random_state=5, **settings)

    whole = make().fit(words(family), groups=GROUPS)
    model, n_stops = fit_in_pieces(monkeypatch, make, words(family), tmp_path / "run", 3)
    assert bits(model) == bits(whole)
    assert n_stops >= 3
    kept = [path.name.rpartition("-")[0] for path in (tmp_path / "run").glob("*.checkpoint")]
    assert all(kept.count(name) <= 2 for name in kept)


@pytest.mark.parametrize("engine", stops.LONG_FITS)
def test_a_process_that_is_killed_at_any_moment_goes_on_to_the_same_bits(engine, tmp_path):
    start = time.monotonic()
    whole = bits(fit_long(engine, tmp_path / "whole"))
    seconds = time.monotonic() - start
    for kill in range(KILLS_EACH):
        folder, moment = tmp_path / f"killed {kill}", random.uniform(0.0, 1.2 * seconds)
        command = [sys.executable, "-m", "tests.stops", engine, str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        assert process.stdout.readline() == "begins\n"
        time.sleep(moment)
        process.kill()
        process.communicate()
        # A damaged checkpoint would be told of, and every warning is an error here.
        with warnings.catch_warnings():
            assert bits(fit_long(engine, folder)) == whole, f"killed after {moment} seconds"
        print(f"{engine}: killed after {moment:.3f} of {seconds:.3f} seconds, with code {process.returncode}")


# ── a run that was stopped half-way, and what may happen to it ───────────────────────────────────────────────────
def make_model(**settings):
    return PMLDA(3, **{"engine": "gibbs", "n_sweeps": 14, "random_state": 1} | settings)


def go_on(folder, **settings):
    return make_model(**settings).fit(words("gaussian"), groups=GROUPS, checkpoint=folder)


@pytest.fixture(scope="module")
def whole():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return bits(make_model().fit(words("gaussian"), groups=GROUPS))


@pytest.fixture(scope="module")
def stopped_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped") / "run"
    with (
        pytest.MonkeyPatch.context() as patches,
        watched(patches, stop_after(9, sampling=True)),
        pytest.raises(StoppedError),
    ):
        go_on(Checkpoint(folder, every_sweeps=1))
    return folder


@pytest.fixture
def stopped(stopped_folder, tmp_path):
    return Path(shutil.copytree(stopped_folder, tmp_path / "run"))


def files_of(folder, name):
    """The newest first."""
    return sorted(folder.glob(f"{name}-*.checkpoint"), reverse=True)


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_a_truncated_checkpoint_is_told_of_and_the_one_before_taken(stopped, whole):
    newest = files_of(stopped, "chain-1")[0]
    truncate(newest)
    with pytest.warns(UserWarning, match=r"chain-1-\d+\.checkpoint' is damaged, and was renamed") as told:
        assert bits(go_on(stopped)) == whole
    assert len([each for each in told if "damaged" in str(each.message)]) == 1
    assert newest.with_suffix(".damaged").exists()


def test_a_flipped_bit_changes_no_bit_of_the_result(stopped, whole, tmp_path):
    size = files_of(stopped, "chain-2")[0].stat().st_size
    n_noticed = 0
    for place in [size // 2, *(random.randrange(size) for _ in range(5))]:
        folder = Path(shutil.copytree(stopped, tmp_path / f"flipped {place}"))
        newest = files_of(folder, "chain-2")[0]
        data = bytearray(newest.read_bytes())
        data[place] ^= 1 << random.randrange(8)
        newest.write_bytes(data)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert bits(go_on(folder)) == whole, f"bit of byte {place}"
        n_noticed += any("damaged" in str(each.message) for each in told)
    assert n_noticed >= 1  # the middle of the file is an array


def test_a_chain_without_a_sound_checkpoint_starts_again_and_comes_to_the_same(stopped, whole):
    for path in files_of(stopped, "chain-1"):
        truncate(path)
    with pytest.warns(UserWarning, match="resumes from the one before, or from the start if there is none"):
        assert bits(go_on(stopped)) == whole


def test_a_folder_without_a_sound_checkpoint_is_started_again_and_nothing_is_removed(stopped, whole):
    for path in stopped.glob("*.checkpoint"):
        path.write_bytes(b"")
    with pytest.warns(UserWarning, match="was renamed to"):
        assert bits(go_on(stopped)) == whole
    assert len(list(stopped.glob("*.damaged"))) == 6


def test_two_processes_cannot_use_one_folder(tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "tests.stops", "gibbs", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    try:
        assert process.stdout.readline() == "begins\n"
        while not (folder / "lock").exists() or not (folder / "lock").read_text():
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(RunError, match=f"Another process \\(number {process.pid}\\) is at work in .*run"):
            fit_long("gibbs", folder)
    finally:
        process.kill()
        process.communicate()
    assert bits(fit_long("gibbs", folder)) == bits(fit_long("gibbs", None))


def test_a_full_disk_ends_no_fit_and_harms_no_checkpoint(stopped, whole):
    before = {path.name: path.read_bytes() for path in stopped.glob("*.checkpoint")}
    assert min(len(data) for data in before.values()) > 8000
    with small_files(8000), pytest.warns(UserWarning, match="could not be written: File too large. The fit continues"):
        found = go_on(Checkpoint(stopped, every_sweeps=1))
    assert bits(found) == whole
    assert {path.name: path.read_bytes() for path in stopped.iterdir() if path.name != "lock"} == before
    assert bits(go_on(stopped)) == whole


def unwritable(tmp_path):
    """Places where nothing can be written, with what the system says of them."""
    (tmp_path / "file").write_text("")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    places = {tmp_path / "file": "File exists", tmp_path / "missing" / "run": "No such file or directory"}
    if not os.access(closed, os.W_OK):  # the superuser may write everywhere
        places |= {closed: "cannot be written to: Permission denied", closed / "run": "Permission denied"}
    if Path("/proc/self").is_dir():
        places[Path("/proc/run")] = "No such file or directory|Permission denied|Operation not permitted"
    return places


def test_a_folder_that_cannot_be_written_is_an_error_before_any_sweep(tmp_path, monkeypatch):
    for place, said in unwritable(tmp_path).items():
        with watched(monkeypatch, stop_after(0)), pytest.raises(RunError, match=f"(?s)(run|file|closed).*({said})"):
            go_on(place)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n_sweeps": 20}, r"n_sweeps \(was 14, now 20\)"),
        ({"alpha": [1.0, 2.0, 3.0]}, "alpha"),
        ({"covariance": "full", "tol": 0.1}, r"covariance \(was 'isotropic', now 'full'\), tol"),
        ({"engine": "paper"}, r"engine \(was 'gibbs', now 'paper'\)"),
        ({"random_state": 2}, "random_state"),
    ],
)
def test_checkpoints_of_another_fit_are_refused_by_the_name_of_what_differs(stopped, settings, said):
    before = {path.name: path.read_bytes() for path in stopped.glob("*.checkpoint")}
    with pytest.raises(ValueError, match=f"belong to another fit. Different: {said}.*to start again"):
        go_on(stopped, **settings)
    assert {path.name: path.read_bytes() for path in stopped.glob("*.checkpoint")} == before


@pytest.mark.parametrize(("X", "groups"), [(words("gaussian") + 1e-9, GROUPS), (words("gaussian"), GROUPS[::-1])])
def test_checkpoints_of_other_data_are_refused(stopped, X, groups):
    with pytest.raises(ValueError, match=r"Different: X and groups\. Use the same data"):
        make_model().fit(X, groups=groups, checkpoint=stopped)


def test_threads_and_the_estimate_may_change(stopped, whole):
    found = bits(go_on(stopped, n_jobs=1, estimate="map"))
    assert found["log_joint_"] == whole["log_joint_"]
    assert found["memberships_"] != whole["memberships_"]


def test_a_seed_that_was_left_to_chance_is_kept(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    with watched(monkeypatch, stop_after(3, sampling=True)), pytest.raises(StoppedError):
        go_on(Checkpoint(folder, every_sweeps=1), random_state=None)
    seed = files.read_note(files_of(folder, "chain-1")[0], files.CHECKPOINT)["seed"]
    shutil.copytree(folder, tmp_path / "again")
    found, again = go_on(folder, random_state=None), go_on(tmp_path / "again", random_state=None)
    assert found.seed_ == seed
    assert bits(found) == bits(again)


@pytest.mark.parametrize("engine", ["variational", "gibbs", "paper"])
def test_a_finished_run_answers_without_a_sweep_and_can_be_extended(engine, tmp_path, monkeypatch):
    done = go_on(tmp_path / "run", engine=engine)
    with watched(monkeypatch, stop_after(0)):
        again = go_on(tmp_path / "run", engine=engine)
    assert bits(again) == bits(done)
    if engine != "variational":
        for model in (done, again):
            model.fit(words("gaussian"), groups=GROUPS, extend=5)
        assert bits(again) == bits(done)
        with pytest.raises(ValueError, match="extend and checkpoint were both given"):
            again.fit(words("gaussian"), groups=GROUPS, extend=5, checkpoint=tmp_path / "run")


@pytest.mark.parametrize("engine", ["variational", "gibbs", "paper"])
def test_a_fit_that_ctrl_c_ended_can_be_gone_on_with(engine, tmp_path, monkeypatch):
    def press(stage, count):
        if count == 12 and stage in ("chain 1", "sampling", schedule.TOPICS if engine == "variational" else None):
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with watched(monkeypatch, press), pytest.warns(UserWarning, match="was interrupted after 12 of 14 sweeps"):
            # Chains end at different sweeps, so there is one.
            go_on(tmp_path / "run", engine=engine, tol=1e-12, n_chains=1)
    finally:
        signal.signal(signal.SIGINT, before)
    found = bits(go_on(tmp_path / "run", engine=engine, tol=1e-12, n_chains=1))
    whole = make_model(engine=engine, tol=1e-12, n_chains=1).fit(words("gaussian"), groups=GROUPS)
    assert found == bits(whole)


def test_writing_takes_a_small_share_of_the_time(tmp_path):
    series = Series(Checkpoint(tmp_path, every_seconds=0), "slow", {})
    spent = []

    def content():
        start = time.monotonic()
        time.sleep(0.02)
        spent.append(time.monotonic() - start)
        return {}

    start = time.monotonic()
    sweep = 0
    while len(spent) < 3:
        series.write_if_due(sweep := sweep + 1, content)
    assert sum(spent[:-1]) <= LARGEST_SHARE * (time.monotonic() - start)


def test_a_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match=r"holds other things than checkpoints \('thesis.tex'\). Give a new or empty"):
        go_on(tmp_path)


@pytest.mark.parametrize(
    ("checkpoint", "said"),
    [
        (7, "checkpoint=7: give the name of a folder"),
        (("run", -1), "every_seconds=-1: give a number"),
        (("run", "often"), "every_seconds='often': give a number"),
        (("run", 60, 0), "every_sweeps=0: give a whole number"),
    ],
)
def test_senseless_checkpoints_are_refused(checkpoint, said):
    with pytest.raises(ValueError, match=said):
        go_on(Checkpoint(*checkpoint) if isinstance(checkpoint, tuple) else checkpoint)


def test_pictures_pass_their_checkpoint_on_and_other_models_have_none(tmp_path, monkeypatch):
    picture = words("gaussian").reshape(10, 12, 3)
    settings = {"documents": "whole", "engine": "gibbs", "sweeps": 12}
    whole = segment(picture, 2, **settings)
    with watched(monkeypatch, stop_after(7, sampling=True)), pytest.raises(StoppedError):
        segment(picture, 2, checkpoint=Checkpoint(tmp_path / "run", every_sweeps=1), **settings)
    assert files_of(tmp_path / "run", "chain-1")
    assert (segment(picture, 2, checkpoint=tmp_path / "run", **settings).memberships == whole.memberships).all()
    with pytest.raises(ValueError, match="Model 'fcm' keeps no checkpoints"):
        segment(picture, 2, model="fcm", checkpoint=tmp_path / "other")


def test_bayesian_partial_membership_keeps_checkpoints_too(tmp_path, monkeypatch):
    model = make_peer("bpm", 2, random_state=0, engine="paper", n_sweeps=12)
    whole = model.fit(words("gaussian")).memberships_
    with watched(monkeypatch, stop_after(7, sampling=True)), pytest.raises(StoppedError):
        model.fit(words("gaussian"), checkpoint=Checkpoint(tmp_path / "run", every_sweeps=1))
    assert (model.fit(words("gaussian"), checkpoint=tmp_path / "run").memberships_ == whole).all()
