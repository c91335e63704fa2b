"""Pictures are cut into documents: every valid pixel in one, and as many as were asked for."""

import time

import numpy as np
import pytest
import skimage.data
from scipy import ndimage

from pmlda.errors import PmldaError
from pmlda.partitions import border_jump, borders, describe_partitions, partition
from pmlda.partitions.ncuts import _split_to
from pmlda.partitions.shrinking import shrink
from pmlda.types import Image

EVERY_SPELLING = ["whole", "windows:16", "windows:16x32", "windows:16/8", "slic:30", "slic:30*3", "ncuts:7"]


def picture(pixels, valid=None):
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    valid = np.ones(pixels.shape[:2], bool) if valid is None else valid
    return Image(pixels, valid, tuple(f"band {b}" for b in range(pixels.shape[2])), "test")


def rocket():
    return skimage.data.rocket()[100:240:2, 200:400:2]  # (70, 100, 3)


def many_bands():
    """Six bands on very different scales, the last without any contrast."""
    colours = rocket().astype(float)
    return np.concatenate([colours, 1e4 * colours[..., :2] + 7, np.full((70, 100, 1), 3.0)], axis=2)


PICTURES = {
    "colour": rocket,
    "astronaut": lambda: skimage.data.astronaut()[:140:2, 150:350:2],
    "grey": lambda: skimage.data.camera()[100:240:2, 150:350:2],
    "two bands": lambda: rocket()[..., :2].astype(np.uint16) * 100,
    "many bands": many_bands,
    "flat": lambda: np.full((70, 100), 5.0),
    "noise": lambda: np.random.default_rng(0).random((70, 100, 4)),
}

ROWS, COLUMNS = np.indices((70, 100))
MASKS = {
    "all": np.ones((70, 100), bool),
    "two halves": (COLUMNS < 40) | (COLUMNS > 60),
    "scattered": np.random.default_rng(1).random((70, 100)) > 0.5,
    "islands": (ROWS % 20 < 12) & (COLUMNS % 20 < 12),
    "a block and a lone pixel": ((ROWS < 40) & (COLUMNS < 40)) | ((ROWS == 65) & (COLUMNS == 95)),
}


def assert_is_partition(labels, valid):
    assert labels.dtype == np.int64
    assert labels.shape == valid.shape
    np.testing.assert_array_equal(labels == -1, ~valid)
    np.testing.assert_array_equal(np.unique(labels[valid]), np.arange(labels.max() + 1))


@pytest.mark.parametrize("spec", EVERY_SPELLING)
@pytest.mark.parametrize("name", PICTURES)
def test_every_spelling_labels_every_pixel_of_every_picture(spec, name):
    image = picture(PICTURES[name]())
    for labels in partition(spec, image):
        assert_is_partition(labels, image.valid)


@pytest.mark.parametrize("spec", EVERY_SPELLING)
@pytest.mark.parametrize("mask", MASKS)
def test_every_spelling_labels_valid_pixels_and_no_others(spec, mask):
    pixels = rocket().astype(float)
    pixels[~MASKS[mask]] = np.nan
    for labels in partition(spec, picture(pixels, MASKS[mask])):
        assert_is_partition(labels, MASKS[mask])


@pytest.mark.parametrize("spec", EVERY_SPELLING)
def test_the_same_call_gives_the_same_partition(spec):
    image = picture(rocket(), MASKS["two halves"])
    for random_state in (None, 3):
        first, second = (partition(spec, image, random_state) for _ in range(2))
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("spec", EVERY_SPELLING)
def test_the_picture_stays_as_it_was(spec):
    image = picture(many_bands(), MASKS["islands"].copy())
    partition(spec, image)
    np.testing.assert_array_equal(image.pixels, many_bands())
    np.testing.assert_array_equal(image.valid, MASKS["islands"])


@pytest.mark.parametrize("spec", ["slic:40", "ncuts:9"])
def test_what_lies_under_the_mask_does_not_matter(spec):
    valid = MASKS["two halves"]
    one, other = rocket().astype(float), rocket().astype(float)
    one[~valid], other[~valid] = np.nan, 1e9
    np.testing.assert_array_equal(partition(spec, picture(one, valid)), partition(spec, picture(other, valid)))


@pytest.mark.parametrize("spec", ["slic:40", "slic:40*3", "ncuts:9"])
def test_units_of_the_numbers_do_not_matter(spec):
    as_bytes = partition(spec, picture(rocket()))
    as_shares = partition(spec, picture(rocket() / 255))
    # Rounding may move single pixels from one superpixel to the next.
    assert np.mean(np.asarray(as_bytes) == np.asarray(as_shares)) > 0.99


# ── whole and windows ─────────────────────────────────────────────────────────────────────────────────────────────


def test_whole_is_one_document():
    (labels,) = partition("whole", picture(rocket()))
    assert labels.max() == labels.min() == 0


def test_windows_are_squares_from_the_top_left_and_narrow_strips_join_their_neighbour():
    (labels,) = partition("windows:16", picture(rocket()))  # 70 = 4·16 + 6, 100 = 6·16 + 4: both rests below 8
    sizes = np.bincount(labels.ravel()).reshape(4, 6)
    assert (sizes[:3, :5] == 16 * 16).all()
    assert (sizes[3, :5] == (16 + 6) * 16).all()
    assert (sizes[:3, 5] == 16 * (16 + 4)).all()
    assert sizes[3, 5] == (16 + 6) * (16 + 4)
    assert (labels[:16, :16] == 0).all()
    assert (labels[:16, 16:32] == 1).all()
    assert (labels[16:32, :16] == 6).all()


def test_a_strip_of_half_a_window_stays_alone():
    (labels,) = partition("windows:20", picture(rocket()))  # 70 = 3·20 + 10
    assert np.bincount(labels.ravel()).tolist() == [400] * 15 + [200] * 5


def test_windows_have_rows_and_columns():
    (labels,) = partition("windows:35x20", picture(rocket()))
    assert np.bincount(labels.ravel()).tolist() == [700] * 10
    assert len(np.unique(labels[:35, :20])) == 1


def test_windows_without_valid_pixels_leave_no_gap_in_the_numbers():
    valid = COLUMNS >= 50
    (labels,) = partition("windows:35x50", picture(rocket(), valid))
    assert sorted(np.unique(labels)) == [-1, 0, 1]


def test_four_shifted_grids_have_their_lines_in_different_places():
    grids = partition("windows:32/16", picture(np.zeros((96, 128))))
    assert len(grids) == 4
    lines = [
        (np.flatnonzero(np.diff(labels[:, 0])).tolist(), np.flatnonzero(np.diff(labels[0])).tolist())
        for labels in grids
    ]
    rows, shifted_rows = [31, 63], [15, 47, 79]
    columns, shifted_columns = [31, 63, 95], [15, 47, 79, 111]
    assert lines == [
        (rows, columns),
        (rows, shifted_columns),
        (shifted_rows, columns),
        (shifted_rows, shifted_columns),
    ]
    np.testing.assert_array_equal(grids[0], partition("windows:32", picture(np.zeros((96, 128))))[0])


@pytest.mark.parametrize(("spec", "n"), [("windows:32/8", 16), ("windows:32/32", 1), ("windows:32x64/16", 8)])
def test_the_number_of_grids_follows_the_stride(spec, n):
    assert len(partition(spec, picture(np.zeros((96, 128))))) == n


def test_no_shifted_window_is_thinner_than_half_a_window():
    for labels in partition("windows:32/8", picture(rocket())):
        for box in ndimage.find_objects(labels + 1):
            assert min(side.stop - side.start for side in box) >= 16


# ── superpixels ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", PICTURES)
def test_there_are_about_as_many_superpixels_as_asked_for(name, mask):
    (labels,) = partition("slic:60", picture(PICTURES[name](), MASKS[mask]))
    assert 30 <= labels.max() + 1 <= 90


def test_superpixels_are_in_one_piece():
    (labels,) = partition("slic:60", picture(rocket()))
    for label in range(labels.max() + 1):
        assert ndimage.label(labels == label)[1] == 1


@pytest.mark.parametrize("spec", ["slic:40", "ncuts:8"])
@pytest.mark.parametrize("n_bands", [1, 2, 3, 5])
@pytest.mark.parametrize(("noise", "most"), [(3, 0.005), (60, 0.03)])
def test_regions_follow_an_edge_of_the_picture(spec, n_bands, noise, most):
    inside = (ROWS - 33) ** 2 + (COLUMNS - 47) ** 2 < 24**2
    rng = np.random.default_rng(2)
    pixels = np.where(inside, 40.0, 200.0)[..., None] + rng.normal(0, noise, (70, 100, n_bands))
    (labels,) = partition(spec, picture(pixels))
    counts = np.array([np.bincount(labels[side], minlength=labels.max() + 1) for side in (inside, ~inside)])
    on_the_wrong_side = counts.min(axis=0).sum() / labels.size
    assert on_the_wrong_side < most
    (blind,) = partition("windows:10", picture(pixels))  # the bound means something: windows cut through the disc
    counts = np.array([np.bincount(blind[side], minlength=blind.max() + 1) for side in (inside, ~inside)])
    assert counts.min(axis=0).sum() / blind.size > 0.035


def test_several_superpixel_partitions_differ_and_their_numbers_spread():
    several = partition("slic:60*4", picture(rocket()))
    numbers = [labels.max() + 1 for labels in several]
    assert len(several) == 4
    assert numbers == sorted(numbers)
    assert numbers[-1] > 1.2 * numbers[0]
    lines = [borders(labels) for labels in several]
    for i in range(4):
        for j in range(i):
            assert (lines[i] & lines[j]).sum() < 0.7 * lines[i].sum()


# ── normalized cuts ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("count", [1, 2, 5, 40, 90])
@pytest.mark.parametrize("name", PICTURES)
def test_normalized_cuts_give_exactly_the_number_of_regions(name, count):
    (labels,) = partition(f"ncuts:{count}", picture(PICTURES[name]()))
    assert labels.max() + 1 == count


@pytest.mark.parametrize("count", [2, 9, 40])
@pytest.mark.parametrize("mask", MASKS)
def test_the_number_is_exact_under_a_mask(mask, count):
    (labels,) = partition(f"ncuts:{count}", picture(rocket(), MASKS[mask]))
    assert_is_partition(labels, MASKS[mask])
    assert labels.max() + 1 == count


@pytest.mark.parametrize("count", [1, 2, 11, 12])
def test_the_number_is_exact_down_to_single_pixels(count):
    (labels,) = partition(f"ncuts:{count}", picture(np.arange(12.0).reshape(3, 4)))
    assert labels.max() + 1 == count


def test_two_islands_become_two_regions():
    (labels,) = partition("ncuts:2", picture(np.zeros((70, 100)), MASKS["two halves"]))
    assert len(np.unique(labels[:, :40])) == len(np.unique(labels[:, 61:])) == 1


def test_more_islands_than_regions_are_joined():
    (labels,) = partition("ncuts:3", picture(rocket(), MASKS["islands"]))  # 20 islands
    assert labels.max() + 1 == 3


def test_empty_regions_are_replaced_by_halves_of_the_largest():
    sizes, centers = np.array([5, 5, 5, 5, 100]), np.stack([np.zeros(5), np.arange(5.0)], axis=1)
    regions = _split_to(4, np.array([3, 3, 3, 3, 7]), sizes, centers)
    assert len(np.unique(regions)) == 4
    assert (regions == regions[4]).sum() == 1  # one piece cannot be cut, however large


def test_normalized_cuts_of_a_usual_picture_take_no_time():
    image = picture(skimage.data.rocket()[:213, :320])
    partition("ncuts:40", image)  # imports
    seconds = []
    for _ in range(3):
        start = time.process_time()
        partition("ncuts:40", image)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 3  # 0.2 to 0.5 s when measured; scikit-image's own cut takes 10 s and more


# ── given labels ──────────────────────────────────────────────────────────────────────────────────────────────────


def given():
    labels = np.where(COLUMNS < 50, 3, 200)
    labels[:, 90:] = 9
    return labels


EXPECTED = np.where(COLUMNS < 50, 0, np.where(COLUMNS < 90, 2, 1))


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int16, list])
def test_given_labels_are_renumbered_in_their_order(kind):
    labels = given().tolist() if kind is list else given().astype(kind)
    np.testing.assert_array_equal(partition(labels, picture(rocket())), [EXPECTED])


def test_negative_labels_and_pixels_without_data_are_not_used():
    labels = given()
    labels[labels == 9] = -5
    (result,) = partition(labels, picture(rocket(), ROWS > 3))
    np.testing.assert_array_equal(result == -1, (COLUMNS >= 90) | (ROWS <= 3))
    assert result.max() == 1


@pytest.mark.parametrize("suffix", [".npy", ".png", ".tif", ".TIFF"])
@pytest.mark.parametrize("as_text", [True, False])
def test_labels_are_read_from_files(tmp_path, suffix, as_text):
    import PIL.Image
    import tifffile

    path = tmp_path / f"labels{suffix}"
    if suffix == ".npy":
        np.save(path, given())
    elif suffix == ".png":
        PIL.Image.fromarray(given().astype(np.uint8)).save(path)
    else:
        tifffile.imwrite(path, given().astype(np.uint16))
    np.testing.assert_array_equal(partition(str(path) if as_text else path, picture(rocket())), [EXPECTED])


def test_the_palette_of_a_label_image_is_not_applied(tmp_path):
    import PIL.Image

    coloured = PIL.Image.fromarray(given().astype(np.uint8)).convert("P")
    coloured.putpalette(list(range(255, -1, -1)) * 3)
    coloured.save(tmp_path / "labels.png")
    with PIL.Image.open(tmp_path / "labels.png") as stored:
        assert stored.mode == "P"
    np.testing.assert_array_equal(partition(tmp_path / "labels.png", picture(rocket())), [EXPECTED])


# ── thin and tiny pictures ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shape", [(50, 1), (1, 50)])
@pytest.mark.parametrize("n_bands", [1, 3, 5])
@pytest.mark.parametrize(
    "spec", ["whole", "windows:1", "slic:1", "slic:8", "slic:8*3", "slic:50", "ncuts:6", "ncuts:50"]
)
def test_pictures_one_pixel_wide(shape, n_bands, spec):
    image = picture(np.random.default_rng(0).random((*shape, n_bands)))
    for labels in partition(spec, image):
        assert_is_partition(labels, image.valid)


@pytest.mark.parametrize("spec", ["whole", "windows:1", "slic:1", "slic:1*3", "ncuts:1", np.array([[4]])])
def test_a_picture_of_one_pixel(spec):
    for labels in partition(spec, picture(np.ones((1, 1, 3)))):
        assert labels.tolist() == [[0]]


@pytest.mark.parametrize("spec", ["whole", "windows:16", "slic:1", "ncuts:1"])
def test_one_valid_pixel(spec):
    valid = np.zeros((70, 100), bool)
    valid[30, 40] = True
    for labels in partition(spec, picture(rocket(), valid)):
        assert_is_partition(labels, valid)


# ── errors ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("slicc:200", r"'slicc:200' is not known. Did you mean 'slic'"),
        ("window:64", r"Did you mean 'windows'"),
        ("", r"is not known. There are: whole"),
        ("64", r"is not known"),
        ("whole:3", r"'3' where nothing was expected: write 'whole'"),
        ("windows", r"has '' where a whole number was expected: write it like 'windows:64'"),
        ("windows:a", r"has 'a' where a whole number"),
        ("windows:16.5", r"has '16.5' where a whole number"),
        ("windows:16x", r"has '' where a whole number"),
        ("windows:16/", r"has '' where a whole number"),
        ("windows:0", r"has 0 where a number above 0"),
        ("windows:16/-4", r"has -4 where a number above 0"),
        ("windows:71", r"windows of 71 × 71 pixels but the picture has 70 × 100: take smaller windows"),
        ("windows:10x101", r"windows of 10 × 101 pixels but the picture has 70 × 100"),
        ("windows:16/5", r"stride 5 × 5, which does not divide its window 16 × 16: take a half"),
        ("windows:16/32", r"stride 32 × 32, larger than its window 16 × 16"),
        ("windows:64/4", r"makes 256 shifted grids and at most 64 are allowed: take a larger stride"),
        ("slic:many", r"has 'many' where a whole number was expected: write it like 'slic:200'"),
        ("slic:-3", r"has -3 where a number above 0"),
        ("slic:20*", r"has '' where a whole number"),
        ("slic:20*0", r"has 0 where a number above 0"),
        ("slic:20*65", r"makes 65 partitions and at most 64 are allowed: take fewer"),
        ("slic:7001", r"wants 7001 regions but the picture has 7000 valid pixels: ask for fewer"),
        ("ncuts:0", r"has 0 where a number above 0 was expected: write it like 'ncuts:40'"),
        ("ncuts:7001", r"wants 7001 regions but the picture has 7000 valid pixels"),
        (np.zeros((70, 99), int), r"label array has shape \(70, 99\) but the picture has \(70, 100\)"),
        (np.zeros((70, 100, 3), int), r"shape \(70, 100, 3\)"),
        (np.zeros((70, 100)), r"numbers of type float64, expected integers: convert it"),
        (np.zeros((70, 100), bool), r"numbers of type bool, expected integers"),
        (np.full((70, 100), -1), r"no label of at least 0 on a valid pixel"),
    ],
)
def test_errors_say_what_came_and_what_to_do(spec, message):
    with pytest.raises(ValueError, match=message) as caught:
        partition(spec, picture(rocket()))
    assert "\n" not in str(caught.value)


def test_errors_of_label_files(tmp_path):
    image = picture(rocket())
    with pytest.raises(FileNotFoundError, match="not found: check the path"):
        partition(tmp_path / "none.png", image)
    with pytest.raises(ValueError, match=r"ends in '.jpg', expected one of .npy, .png"):
        partition(tmp_path / "labels.jpg", image)
    for suffix in (".npy", ".png", ".tif"):
        (tmp_path / f"broken{suffix}").write_bytes(b"nothing of the kind")
        with pytest.raises(ValueError, match=rf"could not be read as {suffix}"):
            partition(tmp_path / f"broken{suffix}", image)
    np.save(tmp_path / "small.npy", np.zeros((3, 3), int))
    with pytest.raises(ValueError, match=r"small.npy' has shape \(3, 3\) but the picture has"):
        partition(str(tmp_path / "small.npy"), image)


def test_a_label_image_that_claims_to_be_huge_is_not_decoded(tmp_path):
    import PIL.Image

    PIL.Image.new("1", (14_000, 14_000)).save(tmp_path / "huge.png")  # a few kilobytes; Pillow itself would refuse it
    with pytest.raises(PmldaError, match=r"huge.png' has shape \(14000, 14000\) but the picture has \(70, 100\)"):
        partition(tmp_path / "huge.png", picture(rocket()))


@pytest.mark.parametrize("spec", EVERY_SPELLING)
def test_a_picture_without_valid_pixels_is_an_error(spec):
    with pytest.raises(ValueError, match="has no valid pixel"):
        partition(spec, picture(rocket(), np.zeros((70, 100), bool)))


# ── the help text, borders, seams ─────────────────────────────────────────────────────────────────────────────────


def test_every_spelling_of_the_help_text_works():
    image = picture(skimage.data.rocket()[:128, :200])
    lines = describe_partitions()
    assert [spelling.partition(":")[0] for spelling, _ in lines][:-1] == [
        "whole", "windows", "windows", "slic", "slic", "ncuts",
    ]  # fmt: skip
    for spelling, line in lines[:-1]:
        assert line
        assert "\n" not in line
        assert partition(spelling, image)
    assert len(partition("windows:64/32", image)) == len(partition(" SLIC:200*4 ", image)) == 4


def test_borders_are_lines_between_documents_and_not_around_missing_data():
    labels = np.array([[0, 0, 1], [0, 0, 1], [2, 2, -1]])
    assert borders(labels).astype(int).tolist() == [[0, 1, 0], [1, 1, 0], [0, 0, 0]]
    assert not borders(np.zeros((4, 4), np.int64)).any()


def test_the_jump_at_a_seam_is_what_was_put_there():
    across, inside = 0.5, 0.25
    first = np.array([[0.0, inside, inside + across], [0.0, inside, inside + across], [9.0, 9.0, 9.0]])
    labels = np.array([[0, 0, 1], [0, 0, 1], [-1, -1, -1]])
    memberships = np.stack([first, 1 - first], axis=2)
    # Across: two pairs of 0.5. Inside: two pairs of 0.25 side by side, three pairs of 0 above each other.
    assert border_jump(memberships, labels) == pytest.approx((2 * across, 2 * inside * 2 / 5))
    assert border_jump(memberships.astype(np.float32), labels) == pytest.approx((2 * across, 2 * inside * 2 / 5))


def test_without_pairs_the_jump_is_not_a_number():
    across, inside = border_jump(np.ones((2, 2, 1)), np.zeros((2, 2), np.int64))
    assert np.isnan(across)
    assert inside == 0
    assert np.isnan(border_jump(np.ones((1, 1, 2)), np.zeros((1, 1), np.int64))).all()
    with pytest.raises(ValueError, match=r"shape \(2, 2\) and labels \(2, 2\): give \(H, W, K\)"):
        border_jump(np.ones((2, 2)), np.zeros((2, 2), np.int64))


# ── large pictures ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("spec", ["slic:30", "slic:30*3", "ncuts:7"])
@pytest.mark.parametrize("mask", MASKS)
def test_large_pictures_are_cut_as_small_ones(spec, mask, monkeypatch):
    """Blocks of 2 × 2 pixels stay together, no valid pixel is left out, and the number of regions is about the same."""
    monkeypatch.setattr("pmlda.partitions.shrinking.LARGE", 2000)
    monkeypatch.setattr("pmlda.partitions.shrinking.REGION_PIXELS", 10)
    valid = MASKS[mask]
    large = partition(spec, picture(rocket(), valid))
    for labels in large:
        assert_is_partition(labels, valid)
        blocks = labels.reshape(35, 2, 50, 2).swapaxes(1, 2).reshape(35, 50, 4)
        assert all(len(np.unique(block[block >= 0])) <= 1 for row in blocks for block in row)
    if spec.startswith("ncuts"):
        assert large[0].max() + 1 == 7


def test_regions_that_need_small_pixels_keep_them(monkeypatch):
    monkeypatch.setattr("pmlda.partitions.shrinking.LARGE", 2000)
    monkeypatch.setattr("pmlda.partitions.shrinking.REGION_PIXELS", 400)
    image = picture(rocket())
    small, step = shrink(image, 30)
    assert step == 1
    assert small is image


def test_blocks_are_means_of_their_valid_pixels(monkeypatch):
    monkeypatch.setattr("pmlda.partitions.shrinking.LARGE", 4)
    monkeypatch.setattr("pmlda.partitions.shrinking.REGION_PIXELS", 1)
    pixels = np.arange(12.0).reshape(3, 4)
    valid = np.ones((3, 4), bool)
    valid[0, 0] = valid[2, 2] = valid[2, 3] = False
    small, step = shrink(picture(pixels, valid), 1)
    assert step == 2
    np.testing.assert_allclose(small.pixels[..., 0], [[10 / 3, 4.5], [8.5, 0.0]])
    np.testing.assert_array_equal(small.valid, [[True, True], [True, False]])
