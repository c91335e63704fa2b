"""What a user gave → what the model needs, or one clear error: what came, what was expected, what to do."""

import numbers
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.engines.collect import Plan
from pmlda.engines.paper import Held
from pmlda.families import Categorical, Family, find_family
from pmlda.types import FloatArray, Latents, Topics

FIXABLE = ("topics", "covariance", "proportions", "scales")


class Checked(NamedTuple):
    """Parameters that make sense together."""

    n_topics: int
    family: Family
    alpha: FloatArray
    scale_rate: float
    document_steps: int
    init: Any
    estimate: str
    fixed: dict[str, Any]
    plan: Plan

    @property
    def held(self) -> Held:
        """Which blocks stay as they start."""
        return Held(
            "topics" in self.fixed, "covariance" in self.fixed, "proportions" in self.fixed, "scales" in self.fixed
        )


def check_parameters(parameters: dict[str, Any]) -> Checked:
    """The estimator's parameters, checked before any work is done."""
    n_topics = _whole("n_components", parameters["n_components"], 1)
    n_sweeps = _whole("n_sweeps", parameters["n_sweeps"], 1)
    burn_in = n_sweeps // 2 if parameters["burn_in"] is None else _whole("burn_in", parameters["burn_in"], 0)
    if burn_in >= n_sweeps:
        raise ValueError(
            f"burn_in={burn_in} leaves none of n_sweeps={n_sweeps}. Make burn_in smaller or n_sweeps larger."
        )
    _choice("engine", parameters["engine"], ("paper",))
    _choice("estimate", parameters["estimate"], ("mean", "map"))
    init = parameters["init"]
    if isinstance(init, str):
        _choice("init", init, ("extremes", "prior"))
    return Checked(
        n_topics,
        find_family(parameters["family"], parameters["covariance"]),
        _positive_array("alpha", parameters["alpha"], (n_topics,)),
        float(_positive_array("scale_rate", parameters["scale_rate"], ())),
        _whole("document_steps", parameters["document_steps"], 1),
        init,
        parameters["estimate"],
        _check_fixed(parameters["fixed"]),
        Plan(
            n_sweeps,
            burn_in,
            _whole("thin", parameters["thin"], 1),
            _whole("draws_memory", parameters["draws_memory"], 0),
        ),
    )


def check_distinct_rows(X: NDArray[np.floating], n_topics: int, family: Family) -> None:
    """Refuse more topics than different words."""
    found = len(np.unique(X[:1000], axis=0))
    if found < n_topics:
        found = len(np.unique(X, axis=0))
    if found < n_topics and not isinstance(family, Categorical):
        raise ValueError(
            f"n_components={n_topics} but X has only {found} distinct row(s). Use at most {found} topics, or more data."
        )


def given_means(checked: Checked, family: Family, n_features: int) -> FloatArray | None:
    """(K, p) the means that the user gave, fixed or as a start; None if they are to be found."""
    width = family.n_symbols if isinstance(family, Categorical) else n_features
    shape = (checked.n_topics, int(width or 0))
    if "topics" in checked.fixed:
        return _real_array("fixed['topics']", checked.fixed["topics"], shape)
    return None if isinstance(checked.init, str) else _real_array("init", checked.init, shape)


def fix_topics(checked: Checked, family: Family, start: Topics, means: FloatArray | None) -> Topics:
    """The starting topics with what the user fixed, exactly as given."""
    topics = start
    if "topics" in checked.fixed and means is not None:
        topics = topics._replace(means=means)
    if "covariance" in checked.fixed:
        topics = topics._replace(spread=_covariance(checked.fixed["covariance"], family, start))
    with np.errstate(all="ignore"):
        sound = np.isfinite(family.natural(topics)).all()
    if not sound:
        raise ValueError(
            f"fixed['topics'] holds values that the family {family.name!r} does not allow. "
            "Rates and means of positive features must be above 0, probabilities strictly between 0 and 1."
        )
    return topics


def _covariance(value: Any, family: Family, start: Topics) -> FloatArray:
    """A fixed covariance in the shape of the family's; one number stands for that variance everywhere."""
    shape = start.spread.shape
    if shape == (0,):
        raise ValueError(f"fixed['covariance'] was given, but the family {family.name!r} has none. Leave it out.")
    p = start.means.shape[1]
    is_matrix = shape[-2:] == (p, p) and not (family.spread_per_topic and len(shape) == 2)
    if not is_matrix:
        return _positive_array("fixed['covariance']", value, shape)
    array = np.asarray(value, dtype=np.float64)
    array = _real_array("fixed['covariance']", array * np.eye(p) if array.ndim == 0 else array, shape[-2:])
    try:
        np.linalg.cholesky(array)
    except np.linalg.LinAlgError:
        raise ValueError("fixed['covariance'] must be symmetric and positive definite, and is not.") from None
    return np.broadcast_to(array, shape).copy()


def fixed_latents(checked: Checked, latents: Latents) -> Latents:
    """Latents with the proportions and scales that the user fixed."""
    n_documents, n_topics = latents.log_proportions.shape
    if "proportions" in checked.fixed:
        given = np.asarray(checked.fixed["proportions"])
        shape = (n_topics,) if given.ndim == 1 else (n_documents, n_topics)
        pi = _positive_array("fixed['proportions']", given, shape)
        sums = pi.sum(axis=-1)
        if not np.allclose(sums, 1.0, atol=1e-6):
            raise ValueError(
                f"fixed['proportions'] must sum to 1 over topics, but sums to {np.ravel(sums)[0]:g}. Divide by the sum."
            )
        log_pi = np.log(np.broadcast_to(pi, (n_documents, n_topics)) / np.expand_dims(sums, -1))
        latents = latents._replace(log_proportions=np.ascontiguousarray(log_pi))
    if "scales" in checked.fixed:
        s = _positive_array("fixed['scales']", checked.fixed["scales"], (n_documents,))
        latents = latents._replace(scales=s)
    return latents


def _check_fixed(fixed: Any) -> dict[str, Any]:
    if fixed is None:
        return {}
    if not isinstance(fixed, dict) or not set(fixed) <= set(FIXABLE):
        came = sorted(set(fixed) - set(FIXABLE)) if isinstance(fixed, dict) else type(fixed).__name__
        raise ValueError(f"fixed accepts a dict with keys among {list(FIXABLE)}, but got {came}.")
    return fixed


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name}={value!r}: give a whole number of at least {least}.")
    return int(value)


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not known. Choose one of {list(choices)}.")


def _real_array(name: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    """An array of finite numbers of this shape; a single number is repeated."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={value!r}: give numbers of shape {shape}.") from None
    if array.shape not in {(), shape}:
        expected = f"a number or shape {shape}" if shape else "one number"
        raise ValueError(f"{name} has shape {array.shape}, expected {expected}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity. Give finite numbers.")
    return np.broadcast_to(array, shape).copy()


def _positive_array(name: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    array = _real_array(name, value, shape)
    if not (array > 0).all():
        raise ValueError(f"{name} must be positive, but its smallest value is {array.min():g}. Give numbers above 0.")
    return array
