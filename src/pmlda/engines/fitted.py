"""Fitted attributes, as read from a file that anyone may have written → the same with their types, or InputError.

Every attribute that later computations rely on is here, with its shape and with what its numbers may be.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmlda.engines.parameters import bounded_array, sizable_array
from pmlda.families.base import Family
from pmlda.types import Draws, FloatArray, IntArray, Refits, Topics
from pmlda.validate import LARGEST_WHOLE, covariance_matrix, positive_array, real_array, require, shares_array, whole

Values = dict[str, Any]


def check_fitted(values: Values, n_components: Any) -> Values:
    """The fitted attributes of a PMLDA, by name; those that nothing relies on stay as they are."""
    family = values["family_"]
    require(isinstance(family, Family), "family_ is not a family")
    n_topics, p = whole("n_components", n_components, 1), whole("n_features_in_", values["n_features_in_"], 1)
    means = bounded_array("topic_means_", values["topic_means_"], (n_topics, family.n_values(p)))
    spread = values.get("topic_covariances_", values.get("noise_variance_", np.empty(0)))
    topics = Topics(means, check_spread(spread, family, n_topics, p))
    check_topics(topics, family)
    found = values | {"topic_means_": means} | check_documents(values, n_topics)
    spread = float(topics.spread) if topics.spread.ndim == 0 else topics.spread
    found |= {name: spread for name in ("topic_covariances_", "noise_variance_") if name in values}
    found |= check_traces(values)
    found |= check_rows(values, n_topics, "memberships_", "labels_", "deviations_", "concentrations_")
    if "refits_" in values:
        found["refits_"] = check_refits(values["refits_"], family, topics, p)
        found |= check_refit_values(values, len(found["refits_"].means), len(found["documents_"]), n_topics)
    if "draws_" in values:
        found["draws_"] = check_draws(values["draws_"], topics, len(found["documents_"]))
    if "memory_" in values:
        found["memory_"] = check_memory(values["memory_"], n_topics)
    return found


# ── topics ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def check_spread(value: Any, family: Family, n_topics: int, p: int) -> FloatArray:
    """What a family estimates beside means: nothing, variances, or covariance matrices."""
    shape = np.shape(value)
    variances: tuple[tuple[int, ...], ...] = ((n_topics, p),) if family.spread_per_topic else ((), (p,))
    matrices: tuple[int, ...] = (n_topics, p, p) if family.spread_per_topic else (p, p)
    if shape == (0,) and not family.spread_per_topic:
        return np.empty(0)
    require(shape in (*variances, matrices), f"the covariance has shape {shape}, expected one of {variances, matrices}")
    if shape != matrices:
        return sizable_array("covariance", value, shape, power=2)
    found = real_array("covariance", value, shape)
    for matrix in found.reshape(-1, p, p):
        covariance_matrix("covariance", matrix, p)
    return found


def check_topics(topics: Topics, family: Family) -> None:
    """Refuse topics that are none of the family, or outside its bounds."""
    with np.errstate(all="ignore"):
        prior = family.log_prior(topics)
        shapes = {prior.means.shape, family.log_proposal(topics).means.shape}
        require(shapes == {(len(topics.means),)}, "the family and its topics do not fit")
        require(bool(np.isfinite(prior.means).all()), "topics outside the bounds of the family")
        require(not np.isnan(prior.spread).any(), "the family and its covariance do not fit")
        require(family.allows(topics), "topics outside the domain of the family")


def check_refits(value: Any, family: Family, topics: Topics, p: int) -> Refits:
    """Topics that were learnt again, or drawn; each of them like the topics themselves."""
    refits = Refits(**value) if isinstance(value, dict) else value
    require(isinstance(refits, Refits), "refits_ is no table of refits")
    n = len(real_array("refits_.powers", refits.powers, np.shape(refits.powers)[:1]))
    means = bounded_array("refits_.means", refits.means, (n, *topics.means.shape))
    spread = real_array("refits_.spread", refits.spread, (n, *topics.spread.shape))
    for each in map(Topics, means, spread):
        check_spread(each.spread, family, len(topics.means), p)
        with np.errstate(all="ignore"):
            require(family.allows(each), "refits_ has topics outside the domain of the family")
    powers = real_array("refits_.powers", refits.powers, (n,))
    require(bool((np.abs(powers) <= 1.0).all()), "refits_.powers are not between -1 and 1")
    require(isinstance(refits.drawn, bool), "refits_.drawn is neither true nor false")
    return Refits(means, spread, powers, refits.drawn)


def check_refit_values(values: Values, n_refits: int, n_documents: int, n_topics: int) -> Values:
    """What is known of refits beside their topics."""
    found: Values = {}
    if values.get("refit_distances_") is not None:
        shape = (1 + n_refits, 1 + n_refits)
        distances = found["refit_distances_"] = real_array("refit_distances_", values["refit_distances_"], shape)
        own = np.diag(distances)
        are_distances = (distances >= 0.0).all() and (own == 0.0).all() and np.allclose(distances, distances.T)
        require(bool(are_distances), "refit_distances_ are no distances")
    if "document_draws_" in values:
        drawn = values["document_draws_"]
        found["document_draws_"] = bounded_array("document_draws_", drawn, (1 + n_refits, n_documents, n_topics))
        require(bool((found["document_draws_"] >= 0.0).all()), "document_draws_ has values below 0")
    return found


# ── documents and rows ─────────────────────────────────────────────────────────────────────────────────────────────
def check_documents(values: Values, n_topics: int) -> Values:
    """Labels, sizes, π and s of documents, and the numbers that every model has."""
    labels = np.asarray(values["documents_"])
    require(labels.ndim == 1 and len(labels) > 0, "documents_ is no list of labels")
    n = len(labels)
    return {
        "documents_": labels,
        "document_sizes_": whole_array("document_sizes_", values["document_sizes_"], (n,), least=1),
        "proportions_": shares_array("proportions_", values["proportions_"], (n, n_topics)),
        "scales_": sizable_array("scales_", values["scales_"], (n,)),
        "seed_": whole("seed_", values["seed_"], 0),
        "n_iter_": whole("n_iter_", values["n_iter_"], 0),
    }


def check_rows(values: Values, n_topics: int, *names: str) -> Values:
    """What there is for each training row, if there is; memberships are first, and of them there are as many."""
    found, n = {}, len(np.atleast_1d(values.get(names[0], ())))
    for name in names:
        if name not in values:
            continue
        if name == "labels_":
            found[name] = whole_array(name, values[name], (n,), least=0)
            require(bool((found[name] < n_topics).all()), "labels_ has topics that there are not")
        elif name.endswith("memberships_"):
            dtype = np.asarray(values[name]).dtype
            found[name] = shares_array(name, values[name], (n, n_topics)).astype(dtype, copy=False)
        else:
            kept = np.asarray(values[name])
            rows = bounded_array(name, kept, (n, n_topics))
            require(bool((rows >= 0.0).all()), f"{name} has values below 0")
            found[name] = rows.astype(kept.dtype, copy=False)
    return found


def whole_array(name: str, value: Any, shape: tuple[int, ...], least: int) -> IntArray:
    """Whole numbers of at least `least`."""
    array = np.asarray(value)
    right = array.dtype.kind in "iu" and array.shape == shape and bool((array >= least).all())
    require(right, f"{name} must be whole numbers of at least {least} in the shape {shape}.")
    require(array.sum(dtype=np.float64) <= LARGEST_WHOLE, f"{name} has numbers that are too large.")
    return array.astype(np.int64)


# ── what a fit recorded ────────────────────────────────────────────────────────────────────────────────────────────
def check_traces(values: Values) -> Values:
    """The bound or the log joint density after every sweep, and how often proposals were accepted."""
    found: Values = {}
    for name in ("bound_", "log_joint_"):
        if name in values:
            trace = np.asarray(values[name])
            require(trace.ndim == 1 and trace.dtype.kind == "f", f"{name} is no list of real numbers")
            found[name] = trace
    if isinstance(values.get("acceptance_"), dict):
        found["acceptance_"] = {
            str(block): float(real_array(f"acceptance_[{block!r}]", share, ()))
            for block, share in values["acceptance_"].items()
        }
    return found


def check_draws(value: Any, topics: Topics, n_documents: int) -> Draws:
    """The samples of one or several chains, equally long."""
    draws = Draws(**value) if isinstance(value, dict) else value
    require(isinstance(draws, Draws), "draws is no table of draws")
    n_topics, chains = len(topics.means), whole("draws.n_chains", draws.n_chains, 1)
    n, r = len(np.atleast_1d(draws.sweeps)), len(np.atleast_1d(draws.latent_sweeps))
    require(n % chains == 0 and r % chains == 0, f"there are {n} and {r} draws, which are not of {chains} chains")
    shape = np.shape(draws.memberships)
    require(len(shape) == 3 and shape[::2] == (r, n_topics), f"draws.memberships has shape {shape}")
    return Draws(
        whole_array("draws.sweeps", draws.sweeps, (n,), least=0),
        bounded_array("draws.means", draws.means, (n, *topics.means.shape)),
        bounded_array("draws.spread", draws.spread, (n, *topics.spread.shape)),
        whole_array("draws.latent_sweeps", draws.latent_sweeps, (r,), least=0),
        shares_array("draws.proportions", draws.proportions, (r, n_documents, n_topics)),
        sizable_array("draws.scales", draws.scales, (r, n_documents)),
        _single(shares_array("draws.memberships", draws.memberships, shape)),
        chains,
    )


def _single(array: FloatArray) -> NDArray[np.float32]:
    return array.astype(np.float32)


def check_memory(value: Any, n_topics: int) -> Values:
    """What partial_fit remembers of earlier batches."""
    require(isinstance(value, dict), "memory_ is no table")
    weighted, base, offset = (np.asarray(value[name]) for name in ("weighted", "base", "offset"))
    require(weighted.ndim == 2 and base.ndim <= 2 and offset.ndim == 1, "memory_ has arrays of other shapes")
    return {
        "gram": real_array("memory_.gram", value["gram"], (n_topics, n_topics)),
        "weighted": real_array("memory_.weighted", weighted, (n_topics, weighted.shape[1])),
        "base": real_array("memory_.base", base, base.shape),
        "n_words": float(positive_array("memory_.n_words", value["n_words"], ())),
        "n_batches": whole("memory_.n_batches", value["n_batches"], 1),
        "offset": bounded_array("memory_.offset", offset, offset.shape),
    }
