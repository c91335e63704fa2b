"""Words everyone shares: the NamedTuples that pass between the steps.

Shapes use the letters of the glossary in docs/model.md: N words, p features, K topics, D documents.
"""

from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
NumberArray = NDArray[Any]
"""Numbers of any type."""


class LazyArray(Protocol):
    """An array that is read where it is sliced: of Zarr, of dask, of xarray, of a file."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __getitem__(self, key: Any, /) -> Any: ...


class Topics(NamedTuple):
    """The topics in their usual parameters, whatever the family.

    means : (K, p) mean of a word under each topic; for the categorical family (K, V), its probabilities.
    spread : what else the family estimates. Shared covariance: () variance, (p,) variances or (p, p) matrix;
        one covariance per topic: (K, p) or (K, p, p); nothing else: shape (0,).
    """

    means: FloatArray
    spread: FloatArray

    def order(self, permutation: IntArray, *, spread_too: bool) -> "Topics":
        """Topics renumbered: new topic j is old topic permutation[j]."""
        return Topics(self.means[permutation], self.spread[permutation] if spread_too else self.spread)


class Refits(NamedTuple):
    """Topics learnt again from resampled documents, or draws of them, numbered as the topics that they repeat.

    means, spread : (B, K, p) and (B, …)
    powers : (B,) of the design effect, by which λ is multiplied under each of them
    drawn : whether they are draws of a sampler, over which memberships are averaged, rather than refits beside a fit
    """

    means: FloatArray
    spread: FloatArray
    powers: FloatArray
    drawn: bool = False


class Latents(NamedTuple):
    """Everything hidden about words and documents. Logarithms are kept because memberships reach 1e-400.

    memberships, log_memberships : (N, K) z and ln z
    log_proportions : (D, K) ln π
    scales : (D,) s
    """

    memberships: FloatArray
    log_memberships: FloatArray
    log_proportions: FloatArray
    scales: FloatArray


class Fixed(NamedTuple):
    """What stays at its starting value."""

    means: bool = False
    spread: bool = False
    proportions: bool = False
    scales: bool = False


class Labels(NamedTuple):
    """What somebody said of the memberships of some words, or of the proportions of some documents.

    A label is an observation: p(label | z) = Π_k z_k^counts[k] · (Σ_k any_of[k] z_k)^strength. Every different one is a
    row of a table, whose row 0 says nothing.

    row : (N,) the label of each word, or (D,) of each document
    counts : (L, K) strength times shares, of labels that tell shares
    any_of : (L, K) 1 for each topic that it may be, of labels that say "one of these", 0 elsewhere
    strength : (L,) of labels that say "one of these", 0 elsewhere
    """

    row: IntArray
    counts: FloatArray
    any_of: FloatArray
    strength: FloatArray

    def take(self, chosen: IntArray) -> "Labels":
        """The labels of some words."""
        return self._replace(row=np.ascontiguousarray(self.row[chosen]))


class Documents(NamedTuple):
    """Words sorted by document, so that each document is one slice.

    words : (N, p) feature vectors, in document order
    document : (N,) index of each word's document, ascending
    starts : (D + 1,) document d is words[starts[d]:starts[d + 1]]
    labels : (D,) what the user called each document
    order : (N,) words = X[order]
    told : labels of words, if there are any
    told_documents : labels of documents, if there are any
    """

    words: NDArray[np.floating]
    document: IntArray
    starts: IntArray
    labels: NDArray[np.generic]
    order: IntArray
    told: Labels | None = None
    told_documents: Labels | None = None

    @property
    def sizes(self) -> IntArray:
        """(D,) number of words in each document."""
        return np.diff(self.starts)


class Statistics(NamedTuple):
    """All that topic updates need from the words of a Gaussian with shared covariance, and most of it elsewhere.

    gram : (K, K) ZᵀZ
    weighted : (K, q) ZᵀT(X); where counts are split among topics, (K, p) how many of each feature each topic gets
    """

    gram: FloatArray
    weighted: FloatArray


class Draws(NamedTuple):
    """Samples of one or several chains, topics in one consistent order; chains follow each other, equally long.

    sweeps : (S,) which sweep each draw of the topics is from
    means, spread : (S, …) topics
    latent_sweeps : (R,) which sweeps the draws below are from: fewer where memory asks for it
    proportions, scales : (R, D, K), (R, D)
    memberships : (R, N, K), float32
    n_chains : how many chains
    """

    sweeps: IntArray
    means: FloatArray
    spread: FloatArray
    latent_sweeps: IntArray
    proportions: FloatArray
    scales: FloatArray
    memberships: NDArray[np.float32]
    n_chains: int = 1

    def by_chain(self) -> dict[str, NDArray[np.floating]]:
        """means, spread, proportions, scales and memberships, each (chains, draws, …)."""
        names = ("means", "spread", "proportions", "scales", "memberships")
        arrays = {name: getattr(self, name) for name in names}
        return {
            name: array.reshape(self.n_chains, -1, *array.shape[1:]) for name, array in arrays.items() if array.size
        }


class Estimate(NamedTuple):
    """One value for everything: topics, memberships (N, K), proportions (D, K), scales (D,)."""

    topics: Topics
    memberships: FloatArray
    proportions: FloatArray
    scales: FloatArray


class Fit(NamedTuple):
    """What an engine leaves. Words are in the order of Documents.words.

    mean : the posterior mean
    best : the sample of largest log joint (the paper's MAP sample); samplers only
    dominance : (N, K) share of draws in which each topic is a word's largest; samplers only
    trace : (n_sweeps,) the log joint density, warm-up included, or the bound
    acceptance : share of accepted proposals by block, after warm-up
    draws : the samples; samplers only
    interrupted : whether the user stopped the run early
    concentrations : (N, K) γ, the Dirichlet q of each word; engine "variational" only
    converged : whether the run ended because nothing changed any more; a sampler does not know
    std : (N, K) standard deviation of memberships; engine "variational", and samplers that keep no draws of them
    refits : topics of refits, or of draws on which memberships depend; engine "variational" only
    refit_concentrations : (1 + B, D, K) sπ of documents as found and under every refit
    refit_distances : (1 + B, 1 + B) root mean squared difference of memberships between what was found and its refits
    """

    mean: Estimate
    best: Estimate | None
    dominance: FloatArray | None
    trace: FloatArray
    acceptance: dict[str, float]
    draws: Draws | None
    interrupted: bool
    concentrations: FloatArray | None = None
    converged: bool = True
    std: FloatArray | None = None
    refits: Refits | None = None
    refit_concentrations: FloatArray | None = None
    refit_distances: FloatArray | None = None


Convergence = Literal[
    "converged",
    "nearly",
    "not_converged",
    "ambiguous",
    "too_short",
    "interrupted",
    "does_not_fit",
    "applied",
    "unknown",
]


class Verdict(NamedTuple):
    """Whether a fit can be trusted. Code reads the state, people read str(verdict): the sentence and the advice.

    state : "converged": an optimiser stopped because nothing changed any more, or the chains of a sampler agree
        "nearly": chains agree, but some quantity misses the strict limits of R-hat or effective sample size
        "not_converged": an optimiser ran out of sweeps, or chains have not mixed
        "ambiguous": an optimiser stopped, but several of its refits on resampled documents found another answer
        "too_short": a sampler has too few draws to tell
        "interrupted": Ctrl-C ended the fit
        "does_not_fit": the fit is sound, but its topics do not explain the picture, see FitCheck
        "applied": topics that were learnt elsewhere were applied to the picture, and nothing speaks against that
        "unknown": nothing tells, as for topics learnt batch by batch
    sentence : what was found
    advice : a sentence on what to do, or nothing

    >>> print(Verdict("not_converged", "The bound was still rising after 3 sweeps.", "Give a larger n_sweeps."))
    The bound was still rising after 3 sweeps. Give a larger n_sweeps.
    """

    state: Convergence
    sentence: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}".rstrip()

    @classmethod
    def from_content(cls, content: Any) -> "Verdict":
        """The verdict in a model file: the table of its fields."""
        if not isinstance(content, dict) or content.keys() != set(cls._fields):
            raise ValueError(f"verdict_ is {content!r}")
        verdict = cls(**content)
        if verdict.state not in get_args(Convergence) or not all(isinstance(each, str) for each in verdict):
            raise ValueError(f"verdict_ is {tuple(verdict)!r}")
        return verdict


class FitCheck(NamedTuple):
    """Whether topics explain a picture. Code reads state and figures, people the sentence and the advice.

    state : "fits", "does_not_fit", or "unknown" where the model does not tell what it expects
    figures : how much of the picture is not explained, see pmlda.pipeline.fit_check.Figures
    sentence, advice : what is not explained, and what to try next; empty where topics explain the picture
    """

    state: Literal["fits", "does_not_fit", "unknown"]
    figures: dict[str, float]
    sentence: str = ""
    advice: str = ""


class DocumentPosterior(NamedTuple):
    """What is known of words and their documents.

    memberships, std : (N, K) means of all memberships, and their standard deviations
    proportions, scales : (D, K) and (D,) of each document, in the order of their labels
    concentrations : (1 + B, D, K) s·π of each document under the topics and under each of B refits, see PMLDA
    """

    memberships: NDArray[np.floating]
    std: NDArray[np.floating]
    proportions: FloatArray
    scales: FloatArray
    concentrations: FloatArray | None = None


class PictureShares(NamedTuple):
    """How much of one picture each topic has: the mean over its pixels with data.

    share : (K,)
    std : (K,) standard deviations; None where the model knows no uncertainty
    n_pixels : pixels with data
    """

    share: FloatArray
    std: FloatArray | None
    n_pixels: int


class Share(NamedTuple):
    """How much of one picture one topic has, a row of shares.csv.

    share, low, high : share of the pixels with data, and the ends of its 90 % interval; None where the model knows no
        uncertainty
    pixels, area : the same in pixels, and on the map in this unit, if that is known
    """

    topic: str
    share: float
    low: float | None
    high: float | None
    pixels: float
    area: float | None = None
    unit: str = ""


class TopicValue(NamedTuple):
    """What one feature is in one topic, a row of topics.csv.

    wavelength : of a band, in nanometres, where it is known
    mean, std : of the feature where there is nothing but the topic, and how sure that is: the standard deviation
        between refits, or of draws; None where there are neither
    """

    topic: str
    feature: str
    wavelength: float | None
    mean: float
    std: float | None


class Match(NamedTuple):
    """An entry of a spectral library that a topic is like. angle : in degrees, over n_bands bands"""

    name: str
    angle: float
    n_bands: int


class Georeference(NamedTuple):
    """Where on Earth a picture lies.

    crs : coordinate reference system as well-known text
    transform : (a, b, c, d, e, f), x = a·column + b·row + c and y = d·column + e·row + f
    """

    crs: str
    transform: tuple[float, float, float, float, float, float]


class PixelSize(NamedTuple):
    """How large a pixel is: its height and width in a unit of length, such as µm."""

    height: float
    width: float
    unit: str


class Ignored(NamedTuple):
    """How many pixels of a picture are left out because of their values: they are saturated, or in acoustic shadow."""

    saturated: int = 0
    shadow: int = 0


class Image(NamedTuple):
    """A picture of any number of bands.

    pixels : (H, W, B) numbers as they were read
    valid : (H, W) False where there is no data
    bands : (B,) their names
    name : what to call it
    georeference : where it lies, if that is known
    notes : sentences on what was done while reading, for the user
    pixel_size : how large its pixels are, if the file says so
    ignored : how many pixels were left out because of their values
    """

    pixels: NDArray[np.generic]
    valid: NDArray[np.bool_]
    bands: tuple[str, ...]
    name: str
    georeference: Georeference | None = None
    notes: tuple[str, ...] = ()
    pixel_size: PixelSize | None = None
    ignored: Ignored = Ignored()


class LeftOut(NamedTuple):
    """A picture that was found, but could not be used.

    path : as it was found
    reason : a sentence
    """

    path: str
    reason: str

    def __str__(self) -> str:
        """One sentence; most reasons begin with the path."""
        return self.reason if self.path in self.reason else f"{self.path}: {self.reason}"


class FeatureStack(NamedTuple):
    """What is known of every pixel.

    values : (H, W, p) float32, finite everywhere, also where a picture has no data
    names : (p,) what each one is
    """

    values: NDArray[np.float32]
    names: tuple[str, ...]
