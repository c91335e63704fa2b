"""documents="auto": how a picture of this size is cut into documents, in memory and in tiles alike."""

# 20 superpixels for each topic, but 60 to 100, or as many as leave each of them 100 pixels; one for every 5,000 pixels
# if that is more. docs/pictures.md has the measurements.
EACH_TOPIC, FEWEST, MOST_SMALL, LEAST_PIXELS, DOCUMENT_PIXELS = 20, 60, 100, 100, 5000
# Windows for spectra, and for counts, speckle and symbols, are so small that many hold one material: 8 pixels a side, 4
# where there would be too few of them, and more where there would be too many. Measurements: docs/experiments.md for
# spectra, docs/benchmarks.md for the others.
SMALL_SIDE, USUAL_SIDE, LARGEST_SIDE = 4, 8, 64
LEAST_WINDOWS, MOST_WINDOWS = 64, 4096


def auto_documents(shape: tuple[int, int], n_topics: int, n_valid: int | None = None, *, small: bool = False) -> str:
    """The spelling for a picture of this shape.

    n_valid : pixels with data, where they are known to be fewer
    small : small windows rather than superpixels, for spectra and where noise would lead superpixels astray

    >>> auto_documents((1000, 1000), 3), auto_documents((2000, 2000), 3), auto_documents((10, 10), 3)
    ('slic:200', 'slic:800', 'whole')
    >>> auto_documents((200, 200), 3), auto_documents((200, 200), 5)
    ('slic:60', 'slic:100')
    >>> [auto_documents(shape, 3, small=True) for shape in ((50, 50), (95, 95), (1000, 1000), (3, 100))]
    ['windows:4x4', 'windows:8x8', 'windows:16x16', 'windows:3x4']
    """
    n_pixels = shape[0] * shape[1]
    if small:
        side = USUAL_SIDE if n_pixels >= LEAST_WINDOWS * USUAL_SIDE**2 else SMALL_SIDE
        while n_pixels > MOST_WINDOWS * side**2 and side < LARGEST_SIDE:
            side *= 2
        return f"windows:{min(side, shape[0])}x{min(side, shape[1])}"
    few = min(max(FEWEST, EACH_TOPIC * n_topics), MOST_SMALL, n_pixels // LEAST_PIXELS)
    count = max(few, round(n_pixels / DOCUMENT_PIXELS))
    if n_valid is not None:
        count = round(count * n_valid / n_pixels)
    return f"slic:{count}" if count > 1 else "whole"
