"""The report: what the file holds, and what a reader can do with it in a browser."""

import base64
import dataclasses
import html
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from pmlda.engines.posterior import beta_interval
from pmlda.features import Features
from pmlda.output import report
from pmlda.output.report import render, write_report
from pmlda.pipeline.api import segment
from pmlda.segmentation import Segmentation
from pmlda.settings import make_settings
from pmlda.types import Image

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'.png"
HOLE = np.s_[4:10, 30:42]


def wait_for_text(place: Any, text: str) -> None:
    """The page draws when the browser finds time; an assertion at once would race it."""
    from playwright.sync_api import expect  # late: conftest says what to do where it is missing

    expect(place).to_have_text(text)


def scene() -> np.ndarray:
    """Three colours that run into each other, and a region without data."""
    rng = np.random.default_rng(0)
    across, down = np.meshgrid(np.linspace(0, 1, 60), np.linspace(0, 1, 40))
    mix = np.stack([across * down, 1 - across, across * (1 - down)], axis=2)
    pixels = mix @ np.array([[0.9, 0.1, 0.1], [0.1, 0.8, 0.2], [0.2, 0.2, 0.9]]) + 0.05 * rng.normal(size=(40, 60, 3))
    pixels[HOLE] = np.nan
    return pixels


@pytest.fixture(scope="module")
def small() -> Segmentation:
    return segment(scene(), 3, features="color", documents="whole", n_jobs=1)


def with_maps(found: Segmentation, memberships: np.ndarray, std: np.ndarray, pixels: np.ndarray) -> Segmentation:
    """The same run with other maps of a picture without holes."""
    image = Image(pixels, np.ones(pixels.shape[:2], bool), ("red", "green", "blue"), "made up")
    documents = np.zeros(pixels.shape[:2], np.int64)
    return dataclasses.replace(
        found,
        images=[image],
        membership_maps=[memberships.astype(np.float32)],
        uncertainty_maps=[std.astype(np.float32)],
        document_maps=[documents],
        share_rows=((),),
        residual_maps=(np.random.default_rng(2).chisquare(3.0, pixels.shape[:2]).astype(np.float32),),
    )


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1], parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))


def unpacked(data: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Memberships and standard deviations as page.js reads them."""
    images = [PIL.Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) for uri in data["maps"]]
    planes = np.concatenate([np.asarray(image) for image in images], axis=2).astype(float)
    n_topics = len(data["names"])
    levels = planes[..., n_topics : 2 * n_topics] / data["stdLevels"]
    return planes[..., :n_topics] / 255, data["largestStd"] * levels**2


# ── the file ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n_topics", [3, 8])
def test_a_noisy_megapixel_stays_under_three_megabytes(small, tmp_path, n_topics):
    rng = np.random.default_rng(1)
    z = rng.dirichlet(np.full(n_topics, 0.7), size=(1000, 1000))
    std = 0.1 * rng.random(z.shape)
    noise = rng.integers(0, 256, size=(1000, 1000, 3), dtype=np.uint8)
    model = dataclasses.replace(small, proportions=np.full((1, n_topics), 1 / n_topics))
    settings = small.settings.model_copy(update={"topics": n_topics})
    recipe = model.recipe._replace(order=np.arange(n_topics) % 3, settings=settings)  # as many topics as maps
    write_report(with_maps(dataclasses.replace(model, recipe=recipe), z, std, noise), 0, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 3_000_000


def test_nothing_is_loaded_from_elsewhere(small):
    page = render(small)
    assert "http://" not in page
    assert "https://" not in page
    assert re.search(r"@import|<link(?![^>]*data:)|<script[^>]*\ssrc|url\((?!data:)", page) is None
    assert all(source.startswith("data:") for source in re.findall(r'\ssrc="([^"]*)"', page))


def test_a_malicious_name_stays_text(small):
    image = small.images[0]._replace(name=EVIL, notes=(f"Read from {EVIL}.",))
    page = render(dataclasses.replace(small, images=[image]))
    assert EVIL not in page
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert EVIL in html.unescape(page)


def test_malicious_names_of_features_stay_text_in_tables(small):
    features = Features.from_state(small.recipe.features.state() | {"names": [EVIL, "b", "c"]})
    page = render(dataclasses.replace(small, recipe=small.recipe._replace(features=features)))
    assert "<script>alert" not in page
    assert EVIL in html.unescape(page)


def with_names(found: Segmentation, *names: str) -> Segmentation:
    settings = make_settings(found.settings.model_dump() | {"names": names})
    return dataclasses.replace(found, recipe=found.recipe._replace(settings=settings))


def test_malicious_names_of_topics_stay_text_wherever_they_are_shown(small):
    evil = EVIL[:60]
    page = render(with_names(small, evil, "b", "c"))
    assert "<script>alert" not in page
    assert html.unescape(page).count(evil) > 6
    assert data_of(page)["names"] == [evil, "b", "c"]


def test_the_script_in_the_page_is_the_file_and_ends_no_tag(small):
    script = Path(report.__file__).with_name("page.js").read_text(encoding="utf-8")
    assert "</" not in script
    assert script.strip() in render(small)


def test_packed_maps_are_the_memberships_to_a_level(small):
    z, std = unpacked(data_of(render(small)))
    valid = np.isfinite(small.memberships[..., 0])
    assert np.abs(z - small.memberships)[valid].max() <= 1 / 255
    # Levels of the square root: at most half a level, which is 2√(½·½)/63/2 where it is coarsest.
    assert np.abs(std - small.uncertainty)[valid].max() <= 0.5 / 63 + 1e-6


def test_pixels_without_data_are_zero_in_all_maps_and_no_others(small):
    z, std = unpacked(data_of(render(small)))
    hole = np.zeros(z.shape[:2], bool)
    hole[HOLE] = True
    assert (z[hole] == 0).all()
    assert (std[hole] == 0).all()
    assert (z[~hole].sum(axis=1) > 0).all()
    assert "72 without data" in render(small)


def test_a_large_picture_is_sampled_at_the_places_it_says(small):
    rng = np.random.default_rng(2)
    z = rng.dirichlet(np.ones(3), size=(90, 1900)).round(1)  # compresses well
    data = data_of(render(with_maps(small, z, 0 * z, np.zeros((90, 1900, 3), np.uint8))))
    rows = [(2 * i + 1) * 90 // (2 * data["rows"]) for i in range(data["rows"])]
    columns = [(2 * j + 1) * 1900 // (2 * data["columns"]) for j in range(data["columns"])]
    assert (data["height"], data["width"]) == (90, 1900)
    assert data["columns"] == 900
    assert np.abs(unpacked(data)[0] - z[np.ix_(rows, columns)]).max() <= 1 / 255


def test_many_topics_of_a_pixel_are_data_even_if_none_reaches_a_level():
    z = np.full((1, 1, 900), 1 / 900, np.float32)
    assert report.to_planes(z, 0 * z).max() == 1


def test_the_most_telling_feature_comes_first(small):
    differences = report.standardised_differences(small)
    cards = report.topic_cards(small, 0, small.memberships)
    for k, card in enumerate(cards):
        assert card["features"][0]["name"] == small.feature_names[np.abs(differences[k]).argmax()]
    assert sum(card["share"].share for card in cards) == pytest.approx(1.0, abs=1e-5)
    assert sum(card["largest"] for card in cards) == pytest.approx(1.0)


def test_documents_of_a_later_picture_are_its_own(small):
    both = dataclasses.replace(
        small,
        document_maps=[np.array([[0, 1], [1, -1]]), np.array([[0, 0], [0, 2]])],
        proportions=np.eye(3)[[0, 1, 2, 0, 1]],
        scales=np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
    )
    which, sizes = report.documents_of(both, 1)
    assert which.tolist() == [2, 4]
    assert sizes.tolist() == [3, 1]
    assert [row[2] for row in report.document_summary(both, 1)["rows"]] == ["3", "5"]


def test_many_documents_are_shown_as_distributions(small):
    rng = np.random.default_rng(3)
    many = dataclasses.replace(
        small,
        document_maps=[np.arange(2400).reshape(40, 60) // 24],
        proportions=rng.dirichlet(np.ones(3), 100),
        scales=rng.exponential(2.0, 100),
    )
    charts = report.document_summary(many, 0)["histograms"]
    assert len(charts) == 4
    assert all(len(chart["heights"]) == report.BINS and max(chart["heights"]) == 1.0 for chart in charts)
    assert render(many).count("<figure>") == 4


@pytest.mark.parametrize(("n_topics", "settings"), [(1, {}), (2, {"scaling": "none"}), (2, {"scaling": "whiten"})])
def test_other_runs_have_a_report_too(n_topics, settings):
    found = segment(np.nan_to_num(scene()), n_topics, features="color", documents="whole", n_jobs=1, **settings)
    assert len(data_of(render(found))["names"]) == n_topics


def test_a_picture_that_topics_were_applied_to_has_a_report(small):
    other = small.apply(scene()[:, ::-1])
    assert str(other.verdict).startswith("The topics were learnt elsewhere")
    assert unpacked(data_of(render(other)))[0].shape == (40, 60, 3)


# ── the page in a browser ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Callable[..., Any]:
    """Opens the report of a segmentation in a browser; errors on the page are errors of the test."""

    @contextmanager
    def opening(found: Segmentation, width: int = 1200, **context: Any) -> Iterator[Any]:
        write_report(found, 0, tmp_path / "report.html")
        page = browser.new_page(viewport={"width": width, "height": 800}, **context)
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: None if request.url[:5] in ("file:", "data:") else complaints.append("net"))
        page.goto((tmp_path / "report.html").as_uri())
        page.wait_for_selector("html[data-ready]", timeout=20_000)
        yield page
        page.close()
        assert complaints == []

    return opening


def point_at(page: Any, row: int, column: int, shape: tuple[int, int] = (40, 60)) -> None:
    box = page.locator("#canvas").bounding_box()
    x, y = (column + 0.5) / shape[1], (row + 0.5) / shape[0]
    page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])


def values_of(page: Any) -> list[float]:
    return [float(text) for text in page.locator("#readout .value").all_inner_texts()]


def drawn(page: Any) -> np.ndarray:
    """(H, W, 4) what the canvas shows."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    uri = page.evaluate("document.getElementById('canvas').toDataURL()")
    return np.asarray(PIL.Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))).convert("RGBA")).astype(int)


def set_slider(page: Any, name: str, value: float) -> None:
    page.locator(f"#{name}").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', { bubbles: true })); }",
        str(value),
    )


def test_pointing_shows_the_memberships_of_the_pixel(small, opened):
    with opened(small) as page:
        for row, column in [(0, 0), (20, 30), (39, 59), (33, 7)]:
            point_at(page, row, column)
            wait_for_text(page.locator("#place"), f"row {row}, column {column}")
            assert values_of(page) == pytest.approx(small.memberships[row, column].tolist(), abs=0.5 / 255 + 0.006)


def test_a_sampled_picture_shows_rows_and_columns_of_the_whole_one(small, opened):
    z = np.zeros((45, 1900, 3))
    z[..., 0] = np.linspace(0, 1, 1900)
    z[..., 1] = 1 - z[..., 0]
    with opened(with_maps(small, z, 0 * z, np.zeros(z.shape, np.uint8))) as page:
        point_at(page, 3, 700, (21, 900))
        row, column = map(int, re.findall(r"\d+", page.locator("#place").inner_text()))
        assert abs(column - 1900 * 700.5 / 900) <= 2
        assert abs(row - 45 * 3.5 / 21) <= 2
        assert values_of(page) == pytest.approx(z[row, column].tolist(), abs=0.5 / 255 + 0.006)


def test_intervals_are_those_of_the_model(small, opened):
    rng = np.random.default_rng(4)
    gamma = rng.uniform(0.3, 30.0, size=(600, 3))
    total = gamma.sum(axis=1, keepdims=True)
    z = gamma / total
    std = np.sqrt(z * (1.0 - z) / (total + 1.0))
    low, high = beta_interval(z, std, 0.9)
    maps = [values.reshape(20, 30, 3) for values in (z, std)]
    with opened(with_maps(small, *maps, np.zeros((20, 30, 3), np.uint8))) as page:
        for place in rng.choice(600, 25, replace=False):
            point_at(page, int(place) // 30, int(place) % 30, (20, 30))
            texts = page.locator("#readout .interval").all_inner_texts()
            ends = np.array([[float(end) for end in text.split("–")] for text in texts])
            # Half a level of mean and deviation, and two printed digits.
            assert np.abs(ends - np.stack([low[place], high[place]], axis=1)).max() < 0.025


def test_a_pixel_without_data_is_a_hole_and_says_so(small, opened):
    with opened(small) as page:
        point_at(page, 6, 35)
        wait_for_text(page.locator("#place"), "row 6, column 35: no data")
        assert set(page.locator("#readout .value").all_inner_texts()) == {"–"}
        for view in ("picture", "mixed", "one", "largest", "doubt"):
            page.check(f"input[value={view}]", force=True)
            alpha = drawn(page)[..., 3]
            assert (alpha[HOLE] == 0).all()
            assert (alpha == 0).sum() == alpha[HOLE].size


def test_every_view_looks_different(small, opened):
    with opened(small) as page:
        seen = []
        for view in ("picture", "mixed", "one", "largest", "doubt"):
            page.check(f"input[value={view}]", force=True)
            seen.append(drawn(page))
        for i in range(5):
            for j in range(i):
                assert np.abs(seen[i] - seen[j]).mean() > 2


def test_at_full_opacity_topics_mixed_are_the_colours_mixed(small, opened):
    from pmlda.output.figures import composite

    with opened(small) as page:
        set_slider(page, "opacity", 100)
        shown, valid = drawn(page), np.isfinite(small.memberships[..., 0])
        # Rounded levels may sum to 254, which lets a trace of the picture through.
        assert np.abs(shown[..., :3] - composite(small.memberships))[valid].max() <= 5


def test_the_opacity_slider_lets_the_picture_through(small, opened):
    with opened(small) as page:
        before = drawn(page)
        set_slider(page, "opacity", 10)
        assert np.abs(drawn(page) - before).mean() > 2
        assert page.locator("#opacity-value").inner_text() == "10 %"


def test_a_topic_that_is_switched_off_vanishes(small, opened):
    with opened(small) as page:
        before = drawn(page)
        page.uncheck("input[name=topic][value='0']")
        change = np.abs(drawn(page) - before).sum(axis=2)
        z = small.memberships[..., 0]
        assert change[z > 0.8].mean() > 20
        assert change[z < 0.1].mean() < 0.3 * change[z > 0.8].mean()
        page.click("#none")
        nothing = drawn(page)
        assert np.ptp(nothing[..., :3], axis=2).max() <= 3  # only the picture in grey is left
        page.click("#all")
        assert (drawn(page) == before).all()


def test_transitions_are_highlighted_between_low_and_high(small, opened):
    with opened(small) as page:
        assert page.locator("#low").input_value() == "0.4"
        assert page.locator("#high").input_value() == "0.6"
        page.check("#transitions")
        marked = (drawn(page)[..., :3] == (255, 0, 160)).all(axis=2)
        expected = small.transition(0.4, 0.6)
        assert (marked != expected).mean() < 0.01
        share = float(page.locator("#transition-share").inner_text().split()[0])
        assert share == pytest.approx(100 * expected.sum() / np.isfinite(small.memberships[..., 0]).sum(), abs=1.0)
        set_slider(page, "low", 0.1)
        wider = (drawn(page)[..., :3] == (255, 0, 160)).all(axis=2)
        assert wider.sum() > marked.sum()
        set_slider(page, "low", 0.8)
        assert page.locator("#high").input_value() == "0.8"


def test_moving_a_transition_slider_switches_the_highlight_on(small, opened):
    with opened(small) as page:
        page.locator("#high").focus()
        page.keyboard.press("ArrowRight")
        assert page.locator("#transitions").is_checked()


def test_arrow_keys_move_from_pixel_to_pixel(small, opened):
    with opened(small) as page:
        page.locator("#canvas").focus()
        wait_for_text(page.locator("#place"), "row 20, column 30")
        for key in ("ArrowUp", "ArrowLeft", "Shift+ArrowDown", "ArrowRight"):
            page.keyboard.press(key)
        wait_for_text(page.locator("#place"), "row 29, column 30")
        assert values_of(page) == pytest.approx(small.memberships[29, 30].tolist(), abs=0.5 / 255 + 0.006)
        page.keyboard.press("End")
        page.keyboard.press("ArrowRight")
        wait_for_text(page.locator("#place"), "row 29, column 59")
        page.get_by_text(re.compile("row 29, column 59: topic 1 ")).wait_for(state="attached", timeout=5000)


def test_every_control_is_reached_by_tab_and_has_a_name(small, opened):
    with opened(small) as page:
        reached = set()
        for _ in range(30):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.name"))
        assert {"canvas", "view", "opacity", "topic", "transitions", "low", "high"} <= reached
        nameless = page.evaluate(
            "Array.from(document.querySelectorAll('input, select, button'))"
            ".filter((e) => !(e.labels?.length || e.ariaLabel || e.textContent.trim())).length"
        )
        assert nameless == 0
        page.locator("#canvas").focus()
        page.keyboard.press("ArrowDown")
        assert page.locator("#canvas").evaluate("(e) => getComputedStyle(e).outlineStyle") == "solid"


def test_touch_shows_a_pixel_too(small, opened):
    with opened(small, width=360, has_touch=True, is_mobile=True) as page:
        box = page.locator("#canvas").bounding_box()
        page.touchscreen.tap(box["x"] + box["width"] * 10.5 / 60, box["y"] + box["height"] * 20.5 / 40)
        wait_for_text(page.locator("#place"), "row 20, column 10")


def test_a_thumbnail_shows_its_topic_on_the_picture(small, opened):
    with opened(small) as page:
        page.click(".thumbnail[data-topic='2']")
        assert page.locator("input[value=one]").is_checked()
        assert page.locator("#one").input_value() == "2"
        wait_for_text(page.locator("#legend-title"), "membership of topic 3")


@pytest.mark.parametrize("long_name", [False, True])
def test_a_phone_needs_no_sideways_scrolling(small, opened, long_name):
    name = "x" * 200 + ".png" if long_name else EVIL
    found = dataclasses.replace(small, images=[small.images[0]._replace(name=name)])
    with opened(found, width=360) as page:
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.locator("h1").inner_text() == name


def test_long_names_of_topics_stay_on_a_phone(small, opened):
    names = ("x" * 60, "a name of several words that goes on to the sixtieth letter", '<b>Öl, "dünn"</b>')
    with opened(with_names(small, *names), width=360) as page:
        page.click(".thumbnail[data-topic='2']")
        wait_for_text(page.locator("#legend-title"), f"membership of {names[2]}")
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        for k in range(3):
            page.select_option("#one", str(k))
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.locator("#readout tbody th").all_inner_texts() == list(names)


def test_dark_mode_follows_the_reader(small, opened):
    def brightness(page: Any, of: str) -> float:
        colour = page.evaluate(f"getComputedStyle(document.body).{of}")
        return float(np.mean([float(part) for part in re.findall(r"[\d.]+", colour)[:3]]))

    with opened(small, color_scheme="dark") as page:
        assert brightness(page, "backgroundColor") < 60 < 200 < brightness(page, "color")
        page.emulate_media(media="print", color_scheme="dark")  # paper is white
        assert brightness(page, "color") < 60 < 200 < brightness(page, "backgroundColor")
    with opened(small, color_scheme="light") as page:
        assert brightness(page, "color") < 60 < 200 < brightness(page, "backgroundColor")


def test_without_javascript_the_picture_is_there(small, browser, tmp_path):
    write_report(small, 0, tmp_path / "report.html")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator("#picture").is_visible()
    assert page.get_by_text("Switch it on").is_visible()
    context.close()
