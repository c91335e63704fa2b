"""Pictures that share topics → what PM-LDA, at one setting, and its rivals, at many, make of the same features.

All pixels of all pictures are rows, in one order; every model learns from some of them.
"""

import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from pmlda import PMLDA
from pmlda.evaluation.experiments.rivals import COVARIANCES, Answer, Maps
from pmlda.features import find_features
from pmlda.features.scaling import KINDS, Scaling
from pmlda.partitions import partition
from pmlda.peers import make_peer
from pmlda.pipeline.blending import Blur, blend, infer_pixels
from pmlda.pipeline.maps import to_map
from pmlda.types import FloatArray, Image, IntArray

N_TOPICS = 3
DOCUMENTS, SMALL_DOCUMENTS = "ncuts:40", "ncuts:12"
# PM-LDA learns from every eighth pixel: windows of 15 × 15 pixels around them overlap by half. Those of neighbouring
# pixels are nearly the same, and would count as evidence for the same thing many times.
SPACING, SMALL_SPACING = 8, 4
# Rivals learn, and all are scored, at every third pixel.
DENSE = 3
# The rate of the prior of s: pictures of things that have outlines, where few words are expected to mix.
SCALE_RATE = 5.0
STARTS = 8
# Over how much of a document's width documents are blended: the package's own default.
BLEND = 0.5
FUZZIFIERS = (1.03, 1.06, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0)
PAPER_DICTIONARY = 200
DICTIONARIES = (100, PAPER_DICTIONARY, 400)
# Changes of centres, and gains of bound per word, at which maps have long stopped to change.
FCM_TOL, LDA_TOL = 1e-4, 1e-4

Rows = NDArray[np.floating]


class Corpus(NamedTuple):
    """Pictures cut into documents.

    labels : the document of each pixel (H, W), of each picture
    groups : (N,) the same of all rows, numbered on from picture to picture
    """

    images: list[Image]
    labels: list[IntArray]
    groups: IntArray

    def every(self, step: int) -> NDArray[np.bool_]:
        """(N,) True for the rows of every step-th pixel in both directions."""
        grids = []
        for image in self.images:
            grid = np.zeros(image.valid.shape, bool)
            grid[::step, ::step] = True
            grids.append(grid[image.valid])
        return np.concatenate(grids)


def cut(images: list[Image], documents: str) -> Corpus:
    labels = [partition(documents, image, random_state=0)[0] for image in images]
    firsts = np.cumsum([0, *(int(each.max()) + 1 for each in labels)])
    groups = [each[image.valid] + first for each, image, first in zip(labels, images, firsts, strict=False)]
    return Corpus(images, labels, np.concatenate(groups))


def features_of(corpus: Corpus, features: str) -> Rows:
    """(N, p) features of all pixels, in their own units."""
    computer = find_features(features)
    computer.fit(corpus.images)
    return np.concatenate([computer.compute(image).values[image.valid] for image in corpus.images])


def scaled(values: Rows, kind: str = "standard") -> Rows:
    return Scaling(kind).fit(values).apply(values)


def soft_maps(corpus: Corpus, values: Rows, small: bool) -> list[NDArray[np.float32]]:
    """PM-LDA's memberships (H, W, K) of each picture."""
    words, some = scaled(values), learnt_from(corpus, small)
    model = PMLDA(N_TOPICS, covariance="full", scale_rate=SCALE_RATE, n_refits=0, n_init=STARTS, random_state=0)
    model.fit(words[some], groups=corpus.groups[some])
    priors, maps, first_word, first_document = concentrations(model, corpus), [], 0, 0
    for image, labels in zip(corpus.images, corpus.labels, strict=True):
        n_words, n_documents = int(image.valid.sum()), int(labels.max()) + 1
        blur = Blur.between(n_words, n_documents, BLEND)
        cells, prior = blend(priors[first_document : first_document + n_documents], labels, blur)
        found, _ = infer_pixels(model, words[first_word : first_word + n_words], cells, prior, image.valid)
        maps.append(to_map(found, image, np.float32))
        first_word, first_document = first_word + n_words, first_document + n_documents
    return maps


def learnt_from(corpus: Corpus, small: bool) -> NDArray[np.bool_]:
    return corpus.every(SMALL_SPACING if small else SPACING)


def concentrations(model: PMLDA, corpus: Corpus) -> FloatArray:
    """(D, K) s·π of every document; one that is too small to have a word in the sample gets the average."""
    log_a = np.log(np.maximum(model.proportions_ * model.scales_[:, None], 1e-8))
    found = np.tile(log_a.mean(axis=0), (int(corpus.groups.max()) + 1, 1))
    found[model.documents_.astype(np.int64)] = log_a
    return np.asarray(np.exp(found))


def rivals(corpus: Corpus, values: Rows, small: bool) -> Iterator[Answer]:
    """Rows (n, K) of every third pixel, by the paper's LDA, then by LDA, FCM, mixtures and BPM at many settings."""
    some = corpus.every(DENSE)
    groups = corpus.groups[some]
    words = {kind: scaled(values[some], kind) for kind in KINDS}
    paper = lda(words["standard"], groups, PAPER_DICTIONARY)
    yield Answer("LDA, paper", f"{PAPER_DICTIONARY} words, features: standard", paper)
    yield Answer("LDA", f"{PAPER_DICTIONARY} words, features: standard", paper)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a setting that is as poor as that, others are better
        for kind, size in () if small else product(KINDS, DICTIONARIES):
            if (kind, size) != ("standard", PAPER_DICTIONARY):
                yield Answer("LDA", f"{size} words, features: {kind}", lda(words[kind], groups, size))
        for kind, m in [("standard", 1.5)] if small else product(KINDS, FUZZIFIERS):
            fuzzy = make_peer("fcm", N_TOPICS, fuzzifier=m, tol=FCM_TOL, random_state=0).fit(words[kind])
            yield Answer("FCM", f"m = {m:g}, features: {kind}", fuzzy.memberships_)
        for covariance in COVARIANCES[:1] if small else COVARIANCES:
            mixture = make_peer("gmm", N_TOPICS, covariance=covariance, n_init=2, random_state=0)
            yield Answer("GMM", f"covariance: {covariance}", mixture.fit(words["standard"]).memberships_)
    everything = scaled(values)
    for covariance in ("full",) if small else ("full", "isotropic"):
        # It learns from as many words as PM-LDA, all in one document.
        model = make_peer("bpm", N_TOPICS, covariance=covariance, scale_rate=SCALE_RATE, random_state=0)
        model.fit(everything[learnt_from(corpus, small)])
        yield Answer("BPM", f"covariance: {covariance}", model.transform(everything[some]))


def lda(words: Rows, groups: IntArray, size: int) -> Maps:
    model = make_peer("lda", N_TOPICS, dictionary=size, tol=LDA_TOL, random_state=0)
    return np.asarray(model.fit(words, groups=groups).memberships_)


def pooled(maps: Sequence[NDArray[Any]], images: list[Image], step: int) -> NDArray[Any]:
    """Maps (H, W, …) of every picture → rows (n, …) of every step-th pixel."""
    parts = [each[::step, ::step][image.valid[::step, ::step]] for each, image in zip(maps, images, strict=True)]
    return np.concatenate(parts)
