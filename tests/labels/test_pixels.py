"""What users draw → labels of pixels; whatever makes no sense is one clear error."""

import json
import os
import random

import numpy as np
import pytest
from PIL import Image as Pillow

from pmlda.errors import InputError, PmldaError
from pmlda.images import write_labels
from pmlda.labels import Canvas, read_labels
from pmlda.labels.pixels import MOST_SOFT_DRAWS, PICTURE_PART, per_pixel
from pmlda.types import Georeference
from tests.tree_mutations import mutated

SHAPE = (20, 30)


def read(source, n_topics=3, *, shape=SHAPE, place=None, names=()):
    return read_labels([source], [Canvas(shape, place)], n_topics, names)[0]


def dot(x, y, radius=0.0, **said):
    return {"points": [[x, y]], "radius": radius, **(said or {"topic": 1})}


def said_at(labels, x, y):
    """counts, any_of and strength of the label of a pixel, in units of a stroke of strength 1."""
    row, unit = labels.rows_at(np.array([y * labels.shape[1] + x]))[0], PICTURE_PART * np.prod(labels.shape)
    return (labels.counts[row] / unit).tolist(), labels.any_of[row].tolist(), float(labels.strength[row] / unit)


def test_the_three_kinds_of_statements_become_rows_of_the_table():
    labels = read(
        [
            dot(1, 2, topic=2, strength=5.0),
            dot(3, 4, shares={1: 0.25, "3": 0.75}, strength=8.0),
            dot(5, 6, shares=[0.5, 0.5, 0.0], strength=2.0),
            dot(7, 8, any_of=[1, 3], strength=4.0),
            dot(9, 9, any_of=[3], strength=4.0),
        ]
    )
    assert said_at(labels, 1, 2) == ([0, 5, 0], [0, 0, 0], 0)
    soft = MOST_SOFT_DRAWS / (PICTURE_PART * SHAPE[0] * SHAPE[1])
    np.testing.assert_allclose(said_at(labels, 3, 4)[0], [2 * soft, 0, 6 * soft])
    np.testing.assert_allclose(said_at(labels, 5, 6)[0], [soft, soft, 0])
    assert said_at(labels, 7, 8) == ([0, 0, 0], [1, 0, 1], 4)
    assert said_at(labels, 9, 9) == ([0, 0, 4], [0, 0, 0], 0)  # one of one
    assert said_at(labels, 0, 0) == ([0, 0, 0], [0, 0, 0], 0)
    assert labels.pixel.tolist() == [61, 123, 185, 247, 279]
    assert labels.stroke.tolist() == [0, 1, 2, 3, 4]
    assert [stroke.topics for stroke in labels.strokes[:2]] == [[2], [1, "3"]]


def test_the_pixels_of_a_stroke_share_its_strength():
    labels = read([{"topic": 1, "points": [[2, 3], [11, 3]], "radius": 1, "strength": 30}])
    assert len(labels.pixel) == 32
    np.testing.assert_allclose(labels.counts[1], [per_pixel(30, 32, SHAPE[0] * SHAPE[1]), 0, 0])
    assert said_at(labels, 2, 2) == said_at(labels, 12, 3)
    assert said_at(labels, 13, 3)[0] == [0, 0, 0]


def test_strokes_partly_outside_are_clipped():
    labels = read([{"topic": 1, "points": [[-10, 0], [2, 0]], "radius": 0.5}])
    assert labels.pixel.tolist() == [0, 1, 2]


@pytest.mark.parametrize("turn", [1, -1])
def test_of_statements_that_follow_from_each_other_the_one_that_says_most_counts(turn):
    drawn = [
        dot(1, 1, radius=2, any_of=[1, 2, 4], strength=9),
        dot(1, 1, radius=1, any_of=[1, 2], strength=5),
        dot(1, 1, topic=2),
        dot(3, 1, shares=[0.5, 0.5, 0, 0]),
    ]
    labels = read(drawn[::turn], n_topics=4)
    assert [each[0][1] > 0 for each in (said_at(labels, x, 1) for x in (0, 1, 2, 3))] == [False, True, False, True]
    assert said_at(labels, 0, 1)[1] == said_at(labels, 2, 1)[1] == [1, 1, 0, 0]
    assert said_at(labels, 1, 1)[1] == said_at(labels, 3, 1)[1] == [0, 0, 0, 0]
    assert said_at(labels, 0, 0)[1] == [1, 1, 0, 1]


def test_equal_statements_are_merged_and_the_stronger_one_counts():
    labels = read([dot(1, 1, topic=1, strength=1), dot(1, 1, any_of=[1], strength=9), dot(1, 1, topic=1, strength=3)])
    assert said_at(labels, 1, 1)[0] == [9, 0, 0]
    assert labels.stroke.tolist() == [1]


def test_a_label_image_has_a_stroke_for_each_region_that_touches(tmp_path):
    image = np.zeros(SHAPE, np.uint8)
    image[2:4, 2:4], image[4, 4] = 1, 1  # touches at a corner
    image[10:12, 10:13], image[10:12, 13:15] = 1, 2
    coloured = Pillow.fromarray(image, "P")
    coloured.putpalette([7, 7, 7, 200, 0, 0, 0, 200, 0])
    coloured.save(tmp_path / "palette.png")
    Pillow.fromarray(image).save(tmp_path / "grey.png")
    write_labels(tmp_path / "labels.tif", image.astype(np.int32))
    np.save(tmp_path / "labels.npy", image)
    for source in (image, image.astype(float), *sorted(tmp_path.iterdir())):
        labels = read(source)
        assert labels.pixel.tolist() == np.flatnonzero(image).tolist()
        assert [int((labels.stroke == number).sum()) for number in range(len(labels.strokes))] == [5, 6, 4]
        assert [stroke.topic for stroke in labels.strokes] == [1, 1, 2]
        assert said_at(labels, 2, 2)[0] == [1 / 5, 0, 0]
        assert said_at(labels, 14, 10)[0] == [0, 1 / 4, 0]
    name, content = labels.to_file()
    (tmp_path / name).write_bytes(content)
    assert read(tmp_path / name).fingerprint == labels.fingerprint


def test_transparent_and_missing_pixels_of_a_label_image_are_not_labelled(tmp_path):
    image = np.ones((*SHAPE, 2), np.uint8)
    image[5:, :, 1] = 0
    image[:5, :, 1] = 255
    Pillow.fromarray(image, "LA").save(tmp_path / "labels.png")
    assert len(read(tmp_path / "labels.png").pixel) == 150
    holes = np.full(SHAPE, np.nan)
    holes[3, 4] = 2
    assert read(holes).pixel.tolist() == [94]


def test_strokes_are_written_and_read_again(tmp_path):
    strokes = [
        dot(1, 2, topic="water", strength=5.0),
        {"any_of": ["sand", "grass"], "polygon": [[[5, 5], [12, 5], [12, 12]]]},
        {"shares": {"water": 0.5, "grass": 0.5}, "lines": [[[20, 2], [25, 4]], [[20, 15]]], "radius": 2.5},
        {"topic": "grass", "contains": True, "polygon": [[[15, 5], [22, 5], [22, 12]]]},
    ]
    labels = read({"strokes": strokes, "names": ["water", "sand", "grass"]})
    assert labels.names == ("water", "sand", "grass")
    name, content = labels.to_file()
    assert name == "strokes.json"
    (tmp_path / name).write_bytes(content)
    again = read(tmp_path / name)
    assert again.fingerprint == labels.fingerprint
    assert again.names == labels.names
    assert [each.strength for each in again.strokes] == [each.strength for each in labels.strokes]
    assert again.to_file() == labels.to_file()


def test_the_fingerprint_tells_what_is_said():
    one = read([dot(1, 1, topic=1)])
    assert one.fingerprint == read([dot(1, 1, topic=1)]).fingerprint
    others = [dot(1, 2, topic=1), dot(1, 1, topic=2), dot(1, 1, topic=1, strength=2), dot(1, 1, topic=1, contains=True)]
    assert len({one.fingerprint, *(read([other]).fingerprint for other in others)}) == 5


def test_names_that_nobody_lists_are_those_that_strokes_mention_in_order():
    labels = read([dot(1, 1, topic="sky"), dot(3, 3, any_of=["sky", "fog"]), dot(5, 5, topic="fog")])
    assert labels.names == ("sky", "fog")
    assert said_at(labels, 5, 5)[0] == [0, 1, 0]
    # Names that were given elsewhere come first.
    other = read([dot(1, 1, topic="sky")], names=["fog", "sky", "sea"])
    assert said_at(other, 1, 1)[0] == [0, 1, 0]


def test_pictures_share_names_and_one_table():
    canvases = [Canvas(SHAPE), Canvas((5, 5)), Canvas(SHAPE)]
    one, none, other = read_labels(
        [[dot(1, 1, topic="sky")], None, [dot(2, 2, topic="fog"), dot(3, 3, topic="sky")]], canvases, 2
    )
    assert none is None
    assert one.counts is other.counts
    assert said_at(one, 1, 1) == said_at(other, 3, 3) != said_at(other, 2, 2)


def test_a_statement_about_regions_is_kept_apart():
    labels = read(
        [
            dot(1, 1, topic=1),
            {"topic": 2, "contains": True, "polygon": [[[0, 0], [5, 0], [5, 5], [0, 5]]], "strength": 7},
        ]
    )
    assert labels.pixel.tolist() == [31]  # no pixel of the region is labelled, and none contradicts it
    (region,) = labels.regions
    assert (region.counts.tolist(), region.any_of.tolist(), region.strength) == ([0, 35, 0], [0, 0, 0], 0)
    inside = region.holds(np.arange(SHAPE[0] * SHAPE[1])).reshape(SHAPE)
    assert inside[:5, :5].all()
    assert inside.sum() == 25


# ── GeoJSON ────────────────────────────────────────────────────────────────────────────────────────────────────────
UTM = Georeference("EPSG:32633", (10.0, 0.0, 500_000.0, 0.0, -10.0, 5_000_000.0))


def utm():
    rasterio = pytest.importorskip("rasterio")
    return UTM._replace(crs=rasterio.crs.CRS.from_epsg(32633).to_wkt())


def feature(kind, coordinates, **properties):
    return {
        "type": "Feature",
        "geometry": {"type": kind, "coordinates": coordinates},
        "properties": {"topic": 1, "id": 7} | properties,
    }


def on_earth(x, y):
    return [500_000 + 10 * (x + 0.5), 5_000_000 - 10 * (y + 0.5)]


def collection(*features, **more):
    return {"type": "FeatureCollection", "features": list(features), **more}


def test_every_geometry_of_geojson_is_drawn_where_it_lies(tmp_path):
    square = [on_earth(-0.5 + dx, -0.5 + dy) for dx, dy in ((10, 10), (14, 10), (14, 14), (10, 14), (10, 10))]
    hole = [on_earth(-0.5 + dx, -0.5 + dy) for dx, dy in ((11, 11), (13, 11), (13, 13), (11, 13), (11, 11))]
    beside = [[x + 60, y] for x, y in square]
    content = collection(
        feature("Point", [*on_earth(1, 1), 300.0], radius=5),  # with a height; 5 m are half a pixel
        feature("MultiPoint", [on_earth(3, 1), on_earth(5, 1)], radius=1),
        feature("LineString", [on_earth(1, 3), on_earth(3, 3)], radius=1),
        feature("MultiLineString", [[on_earth(1, 5), on_earth(2, 5)], [on_earth(5, 5), on_earth(6, 5)]], radius=1),
        feature("Polygon", [square, hole], topic=2),
        feature("MultiPolygon", [[beside, [[x + 60, y] for x, y in hole]]], topic=None, any_of=[1, 3]),
        crs={"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32633"}},
    )
    path = tmp_path / "labels.geojson"
    path.write_text(json.dumps(content))
    labels = read(path, place=utm())
    drawn = np.full(SHAPE, -1)
    drawn.ravel()[labels.pixel] = labels.stroke
    for number, where in enumerate([((1, 1),), ((3, 1), (5, 1)), ((1, 3), (2, 3), (3, 3))]):
        assert {(int(x), int(y)) for y, x in np.argwhere(drawn == number)} == set(where)
    assert (drawn == 3).sum() == 4
    expected = np.zeros((4, 4), bool)
    expected[:] = True
    expected[1:3, 1:3] = False
    np.testing.assert_array_equal(drawn[10:14, 10:14] == 4, expected)
    np.testing.assert_array_equal(drawn[10:14, 16:20] == 5, expected)
    # What stays with the maps is in coordinates of pixels.
    name, kept = labels.to_file()
    (tmp_path / name).write_bytes(kept)
    assert read(tmp_path / name).pixel.tolist() == labels.pixel.tolist()


@pytest.mark.parametrize("name", ["EPSG:4326", "urn:ogc:def:crs:OGC:1.3:CRS84", "urn:ogc:def:crs:EPSG::4326"])
def test_longitude_and_latitude_have_several_names(name):
    rasterio = pytest.importorskip("rasterio")
    place = Georeference(rasterio.crs.CRS.from_epsg(4326).to_wkt(), (0.1, 0, 10.0, 0, -0.1, 50.0))
    content = collection(feature("Point", [10.25, 49.85]), crs={"type": "name", "properties": {"name": name}})
    assert 32 in read(content, place=place).pixel


# ── what cannot be used ────────────────────────────────────────────────────────────────────────────────────────────
WRONG = {
    "another size": (np.zeros((3, 4), int), "3 × 4 pixels, and the picture 20 × 30"),
    "beyond K in an image": (np.full(SHAPE, 4), "of topic 4, and topics are numbered from 1 to 3"),
    "negative": (np.full(SHAPE, -1), "a label -1"),
    "not whole": (np.full(SHAPE, 0.5), "not whole"),
    "several bands": (np.zeros((*SHAPE, 3), np.uint8), "3 bands"),
    "nothing in it": (np.zeros(SHAPE, int), "no label in it"),
    "no strokes": ([], "no label in it"),
    "beyond K": ([dot(1, 1, topic=4)], "Stroke 1 of the labels is of topic 4"),
    "zero": ([dot(1, 1, topic=0)], "numbered from 1 to 3"),
    "true": ([dot(1, 1, topic=True)], "topic is True"),
    "unknown name": (
        {"names": ["water", "sand"], "strokes": [dot(1, 1, topic="watr")]},
        "names a topic 'watr'. Did you mean 'water'",
    ),
    "names and numbers": ([dot(1, 1, topic=1), dot(2, 2, topic="sky")], "by numbers and by names"),
    "too many names": ([dot(i, 1, topic=f"t{i}") for i in range(4)], "name 4 topics"),
    "too many listed": ({"names": list("abcd"), "strokes": [dot(1, 1)]}, "4 names for 3 topics"),
    "names that are no texts": ({"names": ["a", 2], "strokes": [dot(1, 1)]}, "The names in the labels=['a', 2]"),
    "equal names": ({"names": ["a", "a"], "strokes": [dot(1, 1)]}, "must differ"),
    "shares beyond 1": ([dot(1, 1, shares=[0.5, 0.5, 0.5])], "must sum to 1"),
    "negative shares": ([dot(1, 1, shares=[1.5, -0.5, 0.0])], "between 0 and 1"),
    "too few shares": ([dot(1, 1, shares=[0.5, 0.5])], "has shape (2,), expected shape (3,)"),
    "one topic twice": ([dot(1, 1, shares={1: 0.5, "1": 0.5})], "two shares of one topic"),
    "all topics": ([dot(1, 1, any_of=[1, 2, 3])], "one of 3 of 3 topics, which tells nothing"),
    "none of them": ([dot(1, 1, any_of=[])], "one of 0 of 3 topics, which tells nothing"),
    "outside": ([dot(100, 1)], "lies outside the picture (x 100 to 100, y 1 to 1, the picture 30 × 20 pixels)"),
    "between pixels": ([dot(1.5, 1.5)], "covers the centre of no pixel"),
    "no strength": ([dot(1, 1, topic=1, strength=0)], "strength is 0, but input should be greater than 0"),
    "infinite strength": ([dot(1, 1, topic=1, strength=np.inf)], "strength is inf"),
    "no number": ([dot(1, 1, topic=1, strength=np.nan)], "strength is nan"),
    "negative radius": ([{"topic": 1, "points": [[1, 1]], "radius": -1}], "radius is -1"),
    "infinite coordinates": ([dot(np.inf, 1)], "points is inf"),
    "huge coordinates": ([dot(1e200, 1)], "points is 1e+200"),
    "no points": ([{"topic": 1, "points": []}], "points is []"),
    "nowhere": ([{"topic": 1}], "none of points, lines, polygon"),
    "says nothing": ([{"points": [[1, 1]]}], "none of topic, shares, any_of"),
    "says two things": ([dot(1, 1, topic=1, any_of=[1, 2])], "topic and any_of"),
    "misspelt": ([dot(1, 1, topic=1, strenght=3)], "no 'strenght' of a stroke. Did you mean 'strength'"),
    "no table": ([3], "Stroke 1 of the labels is 3"),
    "another table": ({"lines": []}, "expected a list of strokes"),
    "no list": ({"strokes": 3}, "3 where a list of strokes is expected"),
    "a number": (3, "Labels cannot be read from 3"),
    "many points": ([{"topic": 1, "points": [[1, 1]] * 60_000}] * 2, "120000 points"),
    "contradiction": (
        [dot(1, 1), {"topic": 1, "points": [[4, 4], [9, 4]]}, {"topic": 2, "points": [[6, 0], [6, 9]]}],
        "Stroke 2 of the labels and stroke 3 of the labels say different things of the pixel x = 5, y = 3",
    ),
    "contradicting images": ([dot(1, 1, topic=1), dot(1, 1, shares=[0.5, 0.5, 0])], "say different things"),
    "neither follows": ([dot(1, 1, any_of=[1, 2]), dot(1, 1, any_of=[2, 3])], "stroke 2 of the labels say different"),
    "another than one of two": (
        [dot(1, 1, any_of=[1, 2]), dot(1, 1, topic=3)],
        "say different things of the pixel x = 1",
    ),
    "the last of three": (
        [dot(1, 1, any_of=[1, 2]), dot(1, 1, topic=1), dot(1, 1, any_of=[2, 3])],
        "Stroke 2 of the labels and stroke 3 of the labels say different",
    ),
    "GeoJSON without a place": (collection(feature("Point", [1, 1])), "the picture has none"),
}


@pytest.mark.parametrize("case", WRONG)
def test_labels_that_make_no_sense_are_one_clear_error(case):
    source, text = WRONG[case]
    with pytest.raises(InputError) as found:
        read(source)
    assert text in str(found.value)
    assert "\n" not in str(found.value)


WRONG_GEOJSON = {
    "another CRS": (
        collection(feature("Point", [13, 45]), crs={"type": "name", "properties": {"name": "EPSG:4326"}}),
        "coordinates in 'EPSG:4326', which is not the coordinate system of the picture",
    ),
    "a CRS that is a file": (
        collection(feature("Point", [13, 45]), crs={"type": "name", "properties": {"name": "/etc/passwd"}}),
        "which is not the coordinate system",
    ),
    "longitude and latitude": (collection(feature("Point", [13.5, 45.1])), "Check its coordinates and their system"),
    "a collection": (collection(feature("GeometryCollection", [])), "is a 'GeometryCollection'"),
    "no geometry": (collection({"type": "Feature", "geometry": None, "properties": {}}), "no geometry"),
    "no numbers": (collection(feature("Point", ["a", 2])), "no numbers"),
    "too shallow": (collection(feature("Polygon", [on_earth(1, 1)])), "no numbers"),
    "no features": ({"type": "FeatureCollection"}, "no list of features"),
    "says nothing": (collection(feature("Point", on_earth(1, 1), topic=None)), "none of topic, shares, any_of"),
}


@pytest.mark.parametrize("case", WRONG_GEOJSON)
def test_geojson_that_makes_no_sense_is_one_clear_error(case):
    source, text = WRONG_GEOJSON[case]
    with pytest.raises(InputError) as found:
        read(source, place=utm())
    assert text in str(found.value)
    assert "\n" not in str(found.value)


def test_a_file_that_is_no_file_of_labels_is_one_clear_error(tmp_path):
    (tmp_path / "labels.txt").write_text("1")
    (tmp_path / "damaged.json").write_text("{")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "less.json").write_text('[{"topic": 1, "points": ' + "[" * 900 + "]" * 900 + "}]")
    (tmp_path / "damaged.png").write_bytes(b"\x89PNG\r\n\x1a\n123")
    Pillow.fromarray(np.zeros((*SHAPE, 3), np.uint8)).save(tmp_path / "colours.png")
    (tmp_path / "folder.json").mkdir()
    for name in ("pipe.json", "pipe.png"):  # nobody writes into them
        os.mkfifo(tmp_path / name)
    expected = {
        "labels.txt": "is no file of labels",
        "damaged.json": "is not JSON",
        "deep.json": "nested too deeply",
        "less.json": "nested too deeply",
        "damaged.png": "cannot be read as PNG",
        "colours.png": "3 bands",
        "folder.json": "cannot be read",
        "missing.json": "do not exist",
        "pipe.json": "is a named pipe",
        "pipe.png": "is a named pipe",
    }
    for name, text in expected.items():
        with pytest.raises(PmldaError, match=text) as found:
            read(tmp_path / name)
        assert str(tmp_path / name) in str(found.value)


def test_files_may_not_list_different_names():
    sources = [{"names": names, "strokes": [dot(1, 1)]} for names in (["a", "b"], ["b", "a"])]
    with pytest.raises(InputError, match="Give equal names"):
        read_labels(sources, [Canvas(SHAPE)] * 2, 2)


STROKES = {
    "names": ["a", "b"],
    "strokes": [
        {"topic": "a", "points": [[1, 2], [8, 2]], "radius": 1.5, "strength": 3},
        {"shares": {"a": 0.5, "2": 0.5}, "lines": [[[1, 9], [8, 9]], [[3, 14]]]},
        {"any_of": [1, 3], "polygon": [[[12, 2], [20, 2], [20, 9]]], "contains": True},
    ],
}


@pytest.mark.parametrize("kind", ["strokes", "GeoJSON"])
def test_nothing_but_an_error_for_users_comes_of_labels(kind):
    square = [on_earth(x, y) for x, y in ((10, 10), (14, 10), (14, 14), (10, 10))]
    earth = collection(
        feature("Point", on_earth(1, 1), radius=5),
        feature("MultiLineString", [[on_earth(1, 5), on_earth(2, 5)], [on_earth(5, 5)]], shares={"1": 0.5, "2": 0.5}),
        feature("MultiPolygon", [[square]], topic=2),
        crs={"type": "name", "properties": {"name": "EPSG:32633"}},
    )
    rng, refused, place = random.Random(0), [], utm() if kind == "GeoJSON" else None
    for _ in range(400):
        try:
            read(mutated(earth if place else STROKES, rng), place=place)
        except PmldaError as error:
            refused.append(str(error))
    assert 100 < len(refused) < 400
    assert not [text for text in refused if "\n" in text or len(text) > 600]
