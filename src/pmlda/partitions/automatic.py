"""documents="auto": how a picture of this size is cut into documents, in memory and in tiles alike."""

# Up to a megapixel, 200 superpixels or as many as leave each of them 100 pixels; beyond, one for every 5,000 pixels.
# docs/pictures.md has the measurements.
MOST_SMALL, LEAST_PIXELS, DOCUMENT_PIXELS = 200, 100, 5000
# Windows for spectra are so small that many hold one material. docs/experiments.md has the measurements.
SPECTRA_WINDOW = 5


def auto_documents(shape: tuple[int, int], n_valid: int | None = None, *, spectra: bool = False) -> str:
    """The spelling for a picture of this shape; n_valid : pixels with data, where they are known to be fewer.

    >>> auto_documents((1000, 1000)), auto_documents((2000, 2000)), auto_documents((10, 10))
    ('slic:200', 'slic:800', 'whole')
    >>> auto_documents((1000, 1000), spectra=True), auto_documents((3, 1000), spectra=True)
    ('windows:5', 'windows:3x5')
    """
    if spectra:
        rows, columns = (min(SPECTRA_WINDOW, length) for length in shape)
        return f"windows:{rows}" if rows == columns else f"windows:{rows}x{columns}"
    n_pixels = shape[0] * shape[1]
    count = max(min(MOST_SMALL, n_pixels // LEAST_PIXELS), round(n_pixels / DOCUMENT_PIXELS))
    if n_valid is not None:
        count = round(count * n_valid / n_pixels)
    return f"slic:{count}" if count > 1 else "whole"
