"""A Segmentation → a few lines of HTML for notebooks: the picture, its topics mixed, and their shares."""

from html import escape

import numpy as np
from numpy.typing import NDArray

from pmlda.images.display import to_rgb
from pmlda.output.figures import composite
from pmlda.output.report import hex_colours, picture_uri
from pmlda.segmentation import Segmentation
from pmlda.text import printable
from pmlda.types import Share

# Longer side of thumbnails; pictures of which thumbnails are shown.
THUMBNAIL, MOST_PICTURES = 160, 4


def to_html(segmentation: Segmentation) -> str:
    """HTML that needs no other file and runs nothing; names, which may come from untrusted files, are escaped."""
    shown, n = segmentation.overview(), len(segmentation.images)
    colours = hex_colours(len(segmentation.topic_names))
    parts = [_picture(shown, index, colours) for index in range(min(n, MOST_PICTURES))]
    more = f"<div>and {n - MOST_PICTURES} more pictures</div>" if n > MOST_PICTURES else ""
    return f"<div><code>{escape(printable(repr(segmentation)))}</code>{''.join(parts)}{more}</div>"


def _picture(shown: Segmentation, index: int, colours: list[str]) -> str:
    image, maps = shown.images[index], shown.membership_maps[index]
    thumbnails = _thumbnail(to_rgb(image), "picture") + _thumbnail(composite(maps), "topics")
    pairs = zip(shown.shares_of(index), colours, strict=False)
    rows = "".join(_row(share, colour) for share, colour in pairs)
    return (
        f'<div style="display:flex;gap:12px;align-items:flex-start;margin:6px 0">{thumbnails}'
        f"<table><caption>{escape(printable(image.name or 'picture'))}</caption>{rows}</table></div>"
    )


def _thumbnail(picture: NDArray[np.uint8], alt: str) -> str:
    step = max(1, -(-max(picture.shape[:2]) // (2 * THUMBNAIL)))
    uri = picture_uri(picture[::step, ::step], THUMBNAIL)
    return f'<img src="{uri}" alt="{alt}" style="max-width:{THUMBNAIL}px;max-height:{THUMBNAIL}px">'


def _row(share: Share, colour: str) -> str:
    ends = "" if share.low is None or share.high is None else f"{100 * share.low:.1f} to {100 * share.high:.1f} %"
    return (
        f'<tr><td style="background:{colour};width:10px"></td><th style="text-align:left">{escape(share.topic)}</th>'
        f"<td>{100 * share.share:.1f} %</td><td>{ends}</td></tr>"
    )
