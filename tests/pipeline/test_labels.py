"""Labels of pixels and of regions through the pipeline: into fits, documents and maps, in memory and tile by tile."""

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image as Pillow
from typer.testing import CliRunner

from pmlda import Segmentation, resume, segment
from pmlda.cli import app
from pmlda.errors import InputError, OutputError, RunError
from pmlda.evaluation.scenes import smooth_scene
from pmlda.images import open_windowed
from pmlda.labels import Canvas, read_labels
from pmlda.labels.pixels import PICTURE_PART
from pmlda.parallel.executor import SerialExecutor
from pmlda.parallel.progress import Clock, silent
from pmlda.pipeline import steps, subsample
from pmlda.pipeline.in_memory import make_job
from pmlda.pipeline.learning import thin_beside_labels
from pmlda.pipeline.reading import read_all
from pmlda.pipeline.request import Asked
from pmlda.pipeline.run import Run
from pmlda.pipeline.told import told_at, told_documents
from pmlda.settings import make_settings
from pmlda.storage.digest import digest
from tests.pipeline.common import bits, files_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SHAPE = (90, 110)  # tiles of 64 and 26 rows, 64 and 46 columns
PIXELS = SHAPE[0] * SHAPE[1] * PICTURE_PART  # draws of a stroke of strength 1
PICTURE, TRUTH = smooth_scene(*SHAPE, 3, 0.04, 0)
# Labels number topics otherwise than dark to bright does.
ORDER = [1, 2, 0]
QUICK = {"documents": "windows:16", "refits": 0}
TILED = QUICK | {"block": 64}


def strokes():
    """A dot where the truth is purest for each topic, and a line across the borders of tiles."""
    found = []
    for number, topic in enumerate(ORDER):
        y, x = np.unravel_index(TRUTH[..., topic].argmax(), SHAPE)
        found.append({"topic": number + 1, "points": [[int(x), int(y)]], "radius": 3, "strength": 100 / PIXELS})
    return [*found, {"any_of": [1, 2], "points": [[58, 84], [70, 84]], "radius": 2, "strength": 50 / PIXELS}]


def error_of(maps):
    return float(np.sqrt(np.mean((np.asarray(maps.memberships) - TRUTH[..., ORDER]) ** 2)))


@pytest.fixture(scope="module")
def labelled():
    """In memory."""
    return segment(PICTURE, 3, labels=strokes(), **QUICK)


@pytest.fixture(scope="module")
def tiled(tmp_path_factory):
    """Four tiles on one thread."""
    return segment(PICTURE, 3, labels=strokes(), out=tmp_path_factory.mktemp("labels") / "maps.zarr", n_jobs=1, **TILED)


def test_topics_are_numbered_as_labels_say(labelled):
    plain = segment(PICTURE, 3, **QUICK)
    assert labelled.recipe.order.tolist() == [0, 1, 2]
    assert error_of(labelled) < 0.1 < 0.3 < error_of(plain)
    for number, stroke in enumerate(strokes()[:3]):
        x, y = stroke["points"][0]
        assert labelled.memberships[y, x, number] > 0.85


def test_a_labelled_pixel_shows_its_label_in_the_maps(labelled):
    """A single pixel tells next to nothing of topics and documents, but much of itself."""
    y, x = (int(each) for each in np.unravel_index((TRUTH[..., ORDER[1]] - TRUTH[..., ORDER[0]]).argmin(), SHAPE))
    x = x + 8 if x < 90 else x - 8  # beside the stroke that says the opposite
    surprise = {"topic": 2, "points": [[x, y]], "radius": 0, "strength": 1000 / PIXELS}
    found = segment(PICTURE, 3, labels=[*strokes(), surprise], **QUICK)
    assert found.memberships[y, x, 1] > 0.9 > 0.2 > labelled.memberships[y, x, 1]
    changes = np.abs(found.memberships - labelled.memberships).max(axis=2)
    assert changes[y, x] > 5 * np.delete(changes.ravel(), y * SHAPE[1] + x).max()


def test_a_sampler_takes_labels():
    found = segment(PICTURE, 3, labels=strokes(), engine="gibbs", sweeps=60, **QUICK)
    assert found.recipe.order.tolist() == [0, 1, 2]
    assert error_of(found) < 0.15


def test_tiles_find_what_one_picture_finds(labelled, tiled):
    np.testing.assert_allclose(np.asarray(tiled.memberships), labelled.memberships, atol=2e-3)


def test_a_sampler_over_tiles_takes_labels(tmp_path):
    asked = TILED | {"engine": "gibbs", "sweeps": 16, "design_effect": 1}
    found = [segment(PICTURE, 3, labels=strokes(), out=tmp_path / f"{n}.zarr", n_jobs=n, **asked) for n in (1, 2)]
    assert found[0].recipe.order.tolist() == [0, 1, 2]
    assert error_of(found[0]) < 0.1
    assert bits(found[0].path) == bits(found[1].path)


# ── which pixels and documents ─────────────────────────────────────────────────────────────────────────────────────
def sampled(labels, **settings):
    """A job in memory whose pixels have been chosen."""
    chosen = make_settings({"topics": 3} | QUICK | settings)
    asked = Asked([PICTURE], [None], chosen, chosen.features, chosen.documents)
    images = read_all(asked.images, asked.masks, asked.settings).images
    job = make_job(images, chosen.documents, chosen, asked.find_features(3), None)
    job = job._replace(labels=read_labels([labels], [Canvas(SHAPE)], 3))
    stages = Run(job, SerialExecutor(None), silent, Clock())
    surveyed = stages.over("documents", steps.survey, [(tile, False) for tile in stages.tiles])
    totals = stages.totals(surveyed, chosen.sample)
    job.features.settle((each["surveys"] for each in surveyed), images[0])
    stages.over("features", steps.sample, [(tile, totals) for tile in stages.tiles])
    return job, stages.tiles[0]


def test_labelled_pixels_are_always_used(monkeypatch):
    monkeypatch.setattr(subsample, "LEAST_SAMPLED", 20)
    monkeypatch.setattr(subsample, "DOCUMENT_WORDS", 20)
    job, tile = sampled(strokes(), sample=500)
    pixel = job.labels[0].pixel
    for use in ("learning", "deciding"):
        rows = steps.rows_of(job, tile, use)
        assert len(rows.values) < SHAPE[0] * SHAPE[1] / 4
        assert np.isin(pixel, rows.places).all()
        np.testing.assert_array_equal(rows.told, told_at(job, tile, rows.places))
        thinned = rows.thinned(1e6, 0)
        assert len(thinned.values) < len(rows.values) / 2
        assert np.isin(pixel, thinned.places).all()
        np.testing.assert_array_equal(thinned.told, told_at(job, tile, thinned.places))


def test_documents_with_labels_are_always_learnt_from(monkeypatch):
    monkeypatch.setattr(subsample, "MOST_DOCUMENTS", 4)
    job, tile = sampled([*strokes(), region(1, 0, 0, 16, 16)])
    rows = steps.rows_of(job, tile, "learning")
    pixel = job.labels[0].pixel
    expected = set((pixel // SHAPE[1] // 16 * 7 + pixel % SHAPE[1] // 16).tolist())  # 6 × 7 windows
    assert expected | {0} <= set(rows.groups.tolist())
    assert len(set(rows.groups.tolist())) < 21


# ── regions ────────────────────────────────────────────────────────────────────────────────────────────────────────
def region(topic, left, top, right, bottom, **more):
    said = {"any_of": topic} if isinstance(topic, list) else {"topic": topic}
    corners = [[left, top], [right, top], [right, bottom], [left, bottom]]
    return {**said, "contains": True, "polygon": [[[x - 0.5, y - 0.5] for x, y in corners]], **more}


def test_few_strokes_are_not_outvoted_by_pixels_that_repeat_each_other():
    (few,) = read_labels([strokes()], [Canvas(SHAPE)], 3)
    n_valid, n_labelled = SHAPE[0] * SHAPE[1], len(few.pixel)
    balanced = n_valid / 16 / n_labelled
    assert balanced > 2.0
    assert thin_beside_labels([None, few], n_valid, 1e6) == pytest.approx(balanced)
    assert thin_beside_labels([few], n_valid, 2.0) == 2.0  # the others tell something new
    assert thin_beside_labels([few], 16 * n_labelled, 1e6) == thin_beside_labels([None], n_valid, 1e6) == 1.0
    learnt = {
        effect: segment(PICTURE, 3, labels=strokes(), **QUICK, design_effect=effect).recipe.model.document_sizes_.sum()
        for effect in (1.0, 2.0, 1e3)
    }
    assert learnt[1.0] == n_valid
    assert learnt[2.0] == pytest.approx(n_valid / 2, rel=0.1)
    assert learnt[1e3] == pytest.approx(17 * n_labelled, rel=0.1)
    everything = segment(PICTURE, 3, **QUICK, design_effect=1e3).recipe.model
    assert everything.document_sizes_.sum() == n_valid


def documents_told(labels):
    job, tile = sampled(labels)
    everyone = np.arange(42)
    return told_documents(job, [tile], [everyone], everyone)


def test_a_document_has_the_label_of_a_region_that_holds_half_of_it():
    told = documents_told([region(2, 0, 0, 24, 16, strength=7), region([1, 3], 32, 0, 39, 16)])
    assert told.row.tolist() == [1, 2, *[0] * 40]  # all of the first, half of the second, 7 / 16 of the third
    assert told.counts[told.row[:2]].tolist() == [[0, 35, 0]] * 2


def test_what_several_regions_say_of_a_document_adds_up():
    told = documents_told([region(2, 0, 0, 16, 16, strength=7), region([1, 3], 0, 0, 16, 16, strength=5)])
    assert told.counts[1].tolist() == [0, 35, 0]
    assert (told.any_of[1].tolist(), told.strength[1]) == ([1, 0, 1], 25)
    with pytest.raises(InputError, match="Stroke 1 of the labels and stroke 2 of the labels both say"):
        documents_told([region([1, 2], 0, 0, 16, 16), region([1, 3], 0, 0, 16, 16)])


def windows_of(topic, n):
    """The windows that have most of a topic, as regions (left, top, right, bottom)."""
    shares = TRUTH[:80, :96, topic].reshape(5, 16, 6, 16).mean(axis=(1, 3))
    best = np.argsort(shares.ravel())[-n:]
    return [(i % 6 * 16, i // 6 * 16, i % 6 * 16 + 16, i // 6 * 16 + 16) for i in best.tolist()]


@pytest.mark.parametrize("where", ["memory", "tiles"])
def test_regions_alone_tell_which_topic_is_which(where, tmp_path):
    labels = [region(number + 1, *box) for number, topic in enumerate(ORDER) for box in windows_of(topic, 3)]
    out = {} if where == "memory" else {"out": tmp_path / "maps.zarr", "block": 64}
    assert error_of(segment(PICTURE, 3, labels=labels, **QUICK, **out)) < 0.12


def test_a_document_that_spans_tiles_counts_with_all_of_them(tmp_path):
    everything = [region(number + 1, 0, 0, 110, 60) for number in range(2)]
    asked = {"documents": "whole", "refits": 0, "out": tmp_path / "maps.zarr"}
    found = segment(PICTURE, 3, labels=everything, **asked, block=64)  # two thirds of the picture, none of some tiles
    assert found.recipe.order.tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="No document has at least half of its pixels"):
        segment(PICTURE, 3, labels=[region(1, 0, 0, 110, 40)], **asked, block=64, overwrite=True)


# ── several pictures ───────────────────────────────────────────────────────────────────────────────────────────────
def test_pictures_share_topics_and_some_may_have_no_labels():
    found = segment([PICTURE[:40], PICTURE], 3, labels=[None, strokes()], **QUICK)
    assert [each is None for each in found.pixel_labels] == [True, False]
    both = np.sqrt(np.mean((found.memberships[0] - TRUTH[:40][..., ORDER]) ** 2))
    assert both < 0.12
    with pytest.raises(InputError, match="1 labels for 2 pictures"):
        segment([PICTURE, PICTURE], 3, labels=[strokes()], **QUICK)
    with pytest.raises(InputError, match="in a list"):
        segment([PICTURE, PICTURE], 3, labels="strokes.json", **QUICK)


# ── what cannot be used ────────────────────────────────────────────────────────────────────────────────────────────
def test_other_models_take_no_labels():
    with pytest.raises(InputError, match="model='fcm' learns without them"):
        segment(PICTURE, 3, model="fcm", labels=strokes())


@pytest.mark.parametrize("out", [None, "maps.zarr"])
def test_labels_on_pixels_without_data_are_refused(out, tmp_path):
    mask = np.ones(SHAPE, np.uint8)
    mask[:20] = 0
    where = {} if out is None else {"out": tmp_path / out, "block": 64}
    with pytest.raises(InputError, match="All labels are on pixels without data"):
        segment(PICTURE, 3, mask=mask, labels=[{"topic": 1, "points": [[5, 5]]}], **QUICK, **where)
    assert files_of(tmp_path) == []


def test_one_label_for_all_pixels_is_refused():
    labels = np.full(SHAPE, 2)
    with pytest.raises(InputError, match="All pixels are labelled as one topic"):
        segment(PICTURE, 3, labels=labels, **QUICK)
    labels[5, 5] = 0
    assert segment(PICTURE, 3, labels=labels, **QUICK).memberships.shape == (*SHAPE, 3)


# ── files ──────────────────────────────────────────────────────────────────────────────────────────────────────────
OPTIONS = ["-k", "3", "--documents", "windows:16", "--set", "refits=0"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A picture and its labels as files."""
    folder = tmp_path_factory.mktemp("files")
    Pillow.fromarray(PICTURE).save(folder / "scene.png")
    (folder / "drawn.json").write_text(json.dumps({"strokes": strokes()}))
    image = np.zeros(SHAPE, np.uint8)
    for number, stroke in enumerate(strokes()[:3]):
        x, y = stroke["points"][0]
        image[max(0, y - 2) : y + 3, max(0, x - 2) : x + 3] = number + 1
    Pillow.fromarray(image).save(folder / "drawn.png")
    return folder


def run(*arguments):
    """The command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def memberships(out):
    return np.asarray(Segmentation.load(out).memberships)


def test_labels_stay_with_the_maps_and_repeat_the_run(place, tmp_path, labelled):
    for drawn, kept in (("drawn.json", "strokes.json"), ("drawn.png", "strokes.png")):
        first, again = tmp_path / f"{kept}-1", tmp_path / f"{kept}-2"
        done = run("segment", place / "scene.png", *OPTIONS, "--labels", place / drawn, "--out", first)
        assert done.exit_code == 0, done.output
        assert "Labels: " in done.output
        picture = json.loads((first / "run.json").read_text())["pictures"][0]
        assert picture["labels"]["file"] == kept
        assert Segmentation.load(first).record["pictures"][0]["labels"] == picture["labels"]
        settings = ["--settings", first / "settings.toml", "--labels", first / kept]
        assert run("segment", place / "scene.png", *settings, "--out", again).exit_code == 0
        assert (first / "memberships.tif").read_bytes() == (again / "memberships.tif").read_bytes()
        assert (first / kept).read_bytes() == (again / kept).read_bytes()
    np.testing.assert_array_equal(memberships(tmp_path / "strokes.json-1"), labelled.memberships)


def test_a_loaded_result_knows_its_labels(labelled, tiled, tmp_path):
    loaded = Segmentation.load(labelled.save(tmp_path / "maps"))
    assert [each.fingerprint for each in loaded.pixel_labels] == [each.fingerprint for each in labelled.pixel_labels]
    documents = {int(labelled.documents[y, x]) for x, y in loaded.ask(5)}
    assert documents.isdisjoint(labelled.documents.ravel()[labelled.pixel_labels[0].pixel])
    again = Segmentation.load(loaded.save(tmp_path / "again"))
    assert again.pixel_labels[0].fingerprint == labelled.pixel_labels[0].fingerprint
    assert Segmentation.load(tiled.path).pixel_labels[0].fingerprint == labelled.pixel_labels[0].fingerprint
    record = json.loads((tmp_path / "again" / "run.json").read_text())
    record["pictures"][0]["labels"]["file"] = "../elsewhere.json"
    (tmp_path / "again" / "run.json").write_text(json.dumps(record))
    with pytest.raises(OutputError, match=r"elsewhere\.json'\], which no run writes"):
        Segmentation.load(tmp_path / "again")


def test_a_result_in_tiles_keeps_what_is_known_of_its_labels(tiled, tmp_path):
    """Saved to a folder, and in the overview, from which `pmlda report` is made: it asks for no labels twice."""
    saved = Segmentation.load(tiled.save(tmp_path / "maps"))
    assert saved.pixel_labels[0].fingerprint == tiled.pixel_labels[0].fingerprint
    assert [each.said for each in saved.agreement] == [each.said for each in tiled.agreement] != []
    shown = Segmentation.load(tiled.path).overview()
    documents = {int(np.asarray(tiled.documents[y, x])) for x, y in shown.ask(5)}
    assert documents.isdisjoint(np.asarray(tiled.documents).ravel()[tiled.pixel_labels[0].pixel])


def test_the_crisp_labels_of_a_result_are_a_label_image(labelled, tmp_path):
    folder = labelled.save(tmp_path / "maps")
    with Pillow.open(folder / "labels.png") as stored:
        np.testing.assert_array_equal(np.asarray(stored), labelled.labels + 1)
    (read,) = read_labels([folder / "labels.png"], [Canvas(SHAPE)], 3)
    np.testing.assert_array_equal(read.counts[read.row].argmax(axis=1), labelled.labels.ravel())


def test_every_picture_has_its_labels_beside_its_maps(place, tmp_path):
    empty = tmp_path / "nothing.json"
    empty.write_text("[]")
    pictures = [place / "scene.png", place / "scene.png"]
    labels = ["--labels", empty, "--labels", place / "drawn.json"]
    done = run("segment", *pictures, *OPTIONS, *labels, "--out", tmp_path / "maps")
    assert done.exit_code == 0, done.output
    kept = json.loads((tmp_path / "maps" / "002-scene" / "strokes.json").read_text())
    assert len(kept["strokes"]) == len(strokes())
    done = run("segment", *pictures, *OPTIONS, "--labels", empty, "--out", tmp_path / "other")
    assert done.exit_code == 2
    assert "1 labels for 2 pictures" in done.stderr
    assert not (tmp_path / "other").exists()


def test_labels_lie_beside_maps_on_disk_and_go_with_them(place, tmp_path):
    out = tmp_path / "maps.tif"
    asked = {"out": out, **TILED}
    segment(place / "scene.png", 3, labels=place / "drawn.json", **asked)
    assert "maps-strokes.json" in files_of(tmp_path)
    asked_again = asked | {"labels": tmp_path / "maps-strokes.json", "out": tmp_path / "b.zarr"}
    again = segment(place / "scene.png", 3, **asked_again)
    np.testing.assert_array_equal(np.asarray(again.memberships), memberships(out))
    assert (tmp_path / "b.zarr" / "strokes.json").read_bytes() == (tmp_path / "maps-strokes.json").read_bytes()
    segment(place / "scene.png", 3, labels=place / "drawn.png", **asked, overwrite=True)
    beside = {name for name in files_of(tmp_path) if "strokes" in name and "zarr" not in name}
    assert beside == {"maps-strokes.png"}
    segment(place / "scene.png", 3, **asked, overwrite=True)
    assert not [name for name in files_of(tmp_path) if "strokes" in name and "zarr" not in name]


def test_labels_that_are_read_are_not_overwritten(place, tmp_path):
    segment(place / "scene.png", 3, labels=place / "drawn.json", out=tmp_path / "maps", **QUICK)
    before = digest([(tmp_path / "maps" / name).read_bytes() for name in files_of(tmp_path / "maps")])
    with pytest.raises(OutputError, match=r"holds .*strokes\.json"):
        segment(
            place / "scene.png",
            3,
            labels=tmp_path / "maps" / "strokes.json",
            out=tmp_path / "maps",
            overwrite=True,
            **QUICK,
        )
    assert digest([(tmp_path / "maps" / name).read_bytes() for name in files_of(tmp_path / "maps")]) == before
    own = tmp_path / "b-strokes.json"
    own.write_bytes((place / "drawn.json").read_bytes())
    with pytest.raises(OutputError, match="would be replaced, and it is read"):
        segment(place / "scene.png", 3, labels=own, out=tmp_path / "b.tif", **TILED)


@pytest.mark.parametrize("kind", ["tiles", "folder"])
def test_a_run_is_resumed_with_the_same_labels_alone(place, tmp_path, kind, tiled):
    labels, out = tmp_path / "strokes.json", tmp_path / ("maps.zarr" if kind == "tiles" else "maps")
    drawn = (place / "drawn.json").read_bytes()
    labels.write_bytes(drawn)
    asked = {"labels": labels, "out": out}
    asked |= TILED if kind == "tiles" else QUICK | {"engine": "gibbs", "sweeps": 6, "checkpoint": 1e-6}
    last = "maps" if kind == "tiles" else "writing"

    def stop(stage):
        if stage == last:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="resume with"):
        segment(place / "scene.png", 3, **asked, stage=stop)
    changed = json.loads(drawn)
    changed["strokes"][0]["strength"] = 99
    labels.write_text(json.dumps(changed))
    with pytest.raises(RunError, match="the picture, its mask or its labels have changed"):
        resume(out)
    labels.unlink()
    with pytest.raises(FileNotFoundError, match="do not exist"):
        resume(out)
    labels.write_bytes(drawn)
    found = np.asarray(resume(out).memberships)
    if kind == "tiles":
        np.testing.assert_array_equal(found, np.asarray(tiled.memberships))
    else:
        undisturbed = segment(place / "scene.png", 3, **asked | {"out": tmp_path / "other"})
        np.testing.assert_array_equal(found, undisturbed.memberships)


def test_a_run_with_strokes_from_python_is_resumed_from_python(tmp_path):
    asked = {"labels": strokes(), "out": tmp_path / "maps.zarr", **TILED}

    def stop(stage):
        if stage == "maps":
            raise KeyboardInterrupt

    source = tmp_path / "scene.png"
    Pillow.fromarray(PICTURE).save(source)
    with pytest.raises(KeyboardInterrupt):
        segment(source, 3, **asked, stage=stop)
    with pytest.raises(RunError, match="Resume it in Python"):
        resume(tmp_path / "maps.zarr")
    assert segment(source, 3, **asked, resume=True).memberships.shape == (*SHAPE, 3)


def test_bad_labels_are_one_line_and_exit_code_2(place, tmp_path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps([{"topic": 7, "points": [[1, 1]]}]))
    words = ["segment", place / "scene.png", *OPTIONS, "--labels", wrong, "--out", tmp_path / "maps"]
    command = [sys.executable, "-m", "pmlda", *(str(word) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if not line.endswith("…")]
    assert len(lines) == 1
    assert "is of topic 7, and topics are numbered from 1 to 3" in lines[0]
    assert files_of(tmp_path) == ["wrong.json"]


def test_geojson_is_drawn_on_a_georeferenced_picture(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    size = {"height": SHAPE[0], "width": SHAPE[1], "count": 3, "dtype": "uint8"}
    size |= {"driver": "GTiff", "crs": "EPSG:32633", "transform": rasterio.Affine(10.0, 0.0, 5e5, 0.0, -10.0, 5e6)}
    with rasterio.open(tmp_path / "scene.tif", "w", **size) as file:
        file.write(np.moveaxis(PICTURE, 2, 0))
    names = ["bog", "fen", "mere"]
    features = []
    for name, stroke in zip(names, strokes(), strict=False):
        x, y = stroke["points"][0]
        place = {"type": "Point", "coordinates": [5e5 + 10 * (x + 0.5), 5e6 - 10 * (y + 0.5)]}
        said = {"topic": name, "radius": 30, "strength": 100 / PIXELS}
        features.append({"type": "Feature", "geometry": place, "properties": said})
    path = tmp_path / "labels.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    found = segment(tmp_path / "scene.tif", 3, labels=path, **QUICK)
    assert open_windowed(tmp_path / "scene.tif").georeference is not None
    assert error_of(found) < 0.12
    expected = segment(PICTURE, 3, labels=strokes()[:3], **QUICK)
    np.testing.assert_array_equal(found.memberships, expected.memberships)
