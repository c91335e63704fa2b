"""What a user gave → what the model needs, or one clear error: what came, what was expected, what to do."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import InputError
from pmlda.families.base import Family
from pmlda.families.known import LARGEST, SMALLEST, as_known
from pmlda.families.rows import count_distinct
from pmlda.families.sparse import stored
from pmlda.types import BoolArray, Fixed, FloatArray, Topics
from pmlda.validate import choice, covariance_matrix, positive_array, real_array, require, whole

FIXABLE = ("topics", "covariance", "proportions", "scales")
# What learns topics from a sample of the words, from where samplers go on; and its sweeps, at most.
START_ENGINE, MOST_START_SWEEPS = "variational", 500


# Where neighbouring words repeat each other, λ is multiplied by the design effect to a power between 0, which counts
# every word in full, and the second number; refits spread over the range, and a fit takes its middle. docs/pictures.md
# has the measurements.
MIDDLE_POWER, LARGEST_POWER = 0.25, 0.5


class Plan(NamedTuple):
    """How long to run and what to keep.

    n_sweeps, burn_in : sweeps in all, and how many of them are warm-up
    thin : keep every thin-th draw of the topics
    draws_memory : bytes that draws of memberships, proportions and scales may take; further thinned to fit
    """

    n_sweeps: int
    burn_in: int
    thin: int = 1
    draws_memory: int = 2**28


class VariationalPlan(NamedTuple):
    """How long a variational fit goes on.

    n_sweeps : the maximum number of sweeps in each stage
    tol : stop when three sweeps together gain less than three times this much bound per word
    """

    n_sweeps: int
    tol: float


class Checked(NamedTuple):
    """Parameters that make sense together.

    base_rate, design_effect : scale_rate and design_effect as the user gave them
    power : λ of the fit is base_rate · design_effect to this power
    scale_rate : that λ
    told_apart : (K,) topics of which something was told that is true of no other, such as labels or a known mean; None
        if there are none
    """

    n_topics: int
    family: Family
    alpha: FloatArray
    scale_rate: float
    document_steps: int
    prior_steps: int
    init: Any
    estimate: str
    fixed_values: dict[str, Any]
    n_init: int
    n_chains: int
    plan: Plan
    variational_plan: VariationalPlan
    n_refits: int = 0
    design_effect: float = 1.0
    base_rate: float = 0.5
    power: float = MIDDLE_POWER
    told_apart: BoolArray | None = None

    @property
    def fixed(self) -> Fixed:
        """Which blocks stay as they start."""
        return Fixed(*(name in self.fixed_values for name in FIXABLE))

    @property
    def numbered(self) -> BoolArray:
        """(K,) which topics keep their number. The others may be renumbered: nothing tells them from each other."""
        named = {"topics", "covariance", "proportions"} & set(self.fixed_values)
        if named or (self.alpha != self.alpha[0]).any():
            return np.ones(self.n_topics, bool)
        return np.zeros(self.n_topics, bool) if self.told_apart is None else self.told_apart

    def telling_apart(self, topics: BoolArray | None) -> "Checked":
        """The same with these topics told apart too."""
        known = [each for each in (self.told_apart, topics) if each is not None]
        return self._replace(told_apart=np.any(known, axis=0)) if known else self


def check_parameters(parameters: dict[str, Any], family: Family, n_words: int, *, samples_words: bool) -> Checked:
    """The estimator's parameters, checked before any work is done.

    samples_words : whether n_sweeps is about a variational fit, rather than about a sampler that starts from one
    """
    family, parameters = know_topics(family, parameters)
    n_topics = whole("n_components", parameters["n_components"], 1)
    require(
        n_topics <= n_words,
        f"n_components={n_topics} but X has only {n_words} rows. Use fewer topics, or more data.",
    )
    n_sweeps = whole("n_sweeps", parameters["n_sweeps"], 1)
    burn_in = n_sweeps // 2 if parameters["burn_in"] is None else whole("burn_in", parameters["burn_in"], 0)
    require(
        burn_in < n_sweeps,
        f"burn_in={burn_in} leaves none of n_sweeps={n_sweeps}. Make burn_in smaller or n_sweeps larger.",
    )
    choice("estimate", parameters["estimate"], ("mean", "map"))
    rate = float(sizable_array("scale_rate", parameters["scale_rate"], ()))
    design_effect = float(sizable_array("design_effect", parameters["design_effect"], ()))
    require(design_effect >= 1.0, f"design_effect={design_effect:g}: give 1 for independent rows, or more.")
    n_refits = whole("n_refits", parameters["n_refits"], 0)
    require(
        n_refits not in (1, 2),
        f"n_refits={n_refits}: so few refits tell nothing about the spread between them. Give 0, or at least 3.",
    )
    init = parameters["init"]
    if isinstance(init, str):
        choice("init", init, ("extremes", "prior"))
    return Checked(
        n_topics,
        family,
        sizable_array("alpha", parameters["alpha"], (), (n_topics,)),
        rate * design_effect**MIDDLE_POWER,
        whole("document_steps", parameters["document_steps"], 1),
        whole("prior_steps", parameters["prior_steps"], 0),
        init,
        parameters["estimate"],
        _check_fixed(parameters["fixed"]),
        whole("n_init", parameters["n_init"], 1),
        whole("n_chains", parameters["n_chains"], 1),
        Plan(
            n_sweeps,
            burn_in,
            whole("thin", parameters["thin"], 1),
            whole("draws_memory", parameters["draws_memory"], 0),
        ),
        VariationalPlan(
            n_sweeps if samples_words else MOST_START_SWEEPS,
            float(positive_array("tol", parameters["tol"], ())),
        ),
        n_refits,
        design_effect,
        rate,
        told_apart=_known_topics(family, n_topics),
    )


def _known_topics(family: Family, n_topics: int) -> BoolArray | None:
    """(K,) of which topics the family knows something, if there are any."""
    known = family.known_means
    if known is None:
        return None
    require(len(known) == n_topics, f"The family knows of {len(known)} topics, but n_components={n_topics}.")
    return ~np.isnan(known[:, 0])


def bounded_array(name: str, value: Any, *shapes: tuple[int, ...]) -> FloatArray:
    """Real numbers whose squares are numbers too."""
    array = real_array(name, value, *shapes)
    largest = float(np.abs(array).max(initial=0.0))
    require(largest < LARGEST, f"{name} has numbers as large as {largest:g}, expected less than {LARGEST:g}.")
    return array


def sizable_array(name: str, value: Any, *shapes: tuple[int, ...], power: int = 1) -> FloatArray:
    """Positive numbers that are neither extremely small nor extremely large. power : 2 for squares of such numbers"""
    array = positive_array(name, value, *shapes)
    low, high = float(array.min(initial=1.0)), float(array.max(initial=1.0))
    least, most = SMALLEST**power, LARGEST**power
    require(low > least and high < most, f"{name} has {low:g} and {high:g}, expected between {least:g} and {most:g}.")
    return array


def check_magnitude(X: NDArray[np.floating]) -> None:
    """Refuse numbers whose squares are not numbers any more."""
    largest = float(np.abs(stored(X)).max(initial=0.0))
    require(
        largest == 0.0 or SMALLEST < largest < LARGEST,
        f"The largest absolute value of X is {largest:g}, outside {SMALLEST:g} to {LARGEST:g}. "
        "Rescale the features (sklearn.preprocessing.StandardScaler).",
    )


def check_distinct_rows(X: NDArray[np.floating], n_topics: int, family: Family) -> None:
    """Refuse more topics than different words."""
    found = count_distinct(X, n_topics)
    require(
        found >= n_topics or not family.means_among_words,
        f"n_components={n_topics} but X has only {found} distinct row(s). Use at most {found} topics, or more data.",
    )


def given_means(checked: Checked, family: Family, n_features: int) -> FloatArray | None:
    """(K, p) the means that the user gave, fixed or as a start; None if they are to be found."""
    shape = (checked.n_topics, family.n_values(n_features))
    is_fixed = "topics" in checked.fixed_values
    if not is_fixed and isinstance(checked.init, str):
        return None
    name, value = ("fixed['topics']", checked.fixed_values["topics"]) if is_fixed else ("init", checked.init)
    means = real_array(name, value, shape)
    known, exact = family.known_means, family.exact_means
    if known is not None and exact is not None:  # what is known exactly needs no start
        means = np.where(exact, known, means)
    outside = np.argwhere(family.nearest(means) != means)
    require(
        len(outside) == 0,
        f"{name} has {len(outside)} value(s) outside the bounds of topic means. Give means between topic_bounds, or "
        "other bounds.",
    )
    return means


def bound_topics(family: Family, bounds: Any) -> Family:
    """The family with means between topic_bounds, (low, high) or None."""
    if bounds is None:
        return family
    if not (isinstance(bounds, list | tuple | np.ndarray) and len(bounds) == 2):  # arrays take long to be written
        raise InputError(f"topic_bounds={bounds!r}: give a pair (low, high), or None.")
    return family.bounded(*bounds)


def know_topics(family: Family, parameters: dict[str, Any]) -> tuple[Family, dict[str, Any]]:
    """The family with what known_topics and known_spread say of its means, and parameters that go with it.

    Where all topics are known exactly, their means are fixed, and there is nothing left to know of them.
    """
    if parameters["known_topics"] is None:
        return family, parameters
    n_topics = whole("n_components", parameters["n_components"], 1)
    known = as_known(parameters["known_topics"], parameters["known_spread"], n_topics)
    fixed = _check_fixed(parameters["fixed"])
    require("topics" not in fixed, "known_topics and fixed['topics'] were both given. Give one of them.")
    if known.exact.all():
        return family, parameters | {"fixed": fixed | {"topics": known.means}}
    return family.knowing(known.means, known.spread), parameters


def fix_topics(checked: Checked, family: Family, start: Topics, means: FloatArray | None) -> Topics:
    """The starting topics with what the user fixed, as given."""
    if "topics" in checked.fixed_values and means is not None:
        start = start._replace(means=means)
        with np.errstate(all="ignore"):
            require(
                family.allows(start),
                f"fixed['topics'] holds values that the family {family.name!r} does not allow. Rates and means of "
                "positive features must be above 0, probabilities strictly between 0 and 1, and those of symbols "
                "must sum to 1.",
            )
    if "covariance" in checked.fixed_values:
        start = start._replace(spread=_covariance(checked.fixed_values["covariance"], family, start))
    return start


def _covariance(value: Any, family: Family, start: Topics) -> FloatArray:
    """A fixed covariance in the shape of the family's; one number, or one matrix, stands for all."""
    name, shape = "fixed['covariance']", start.spread.shape
    require(shape != (0,), f"{name} was given, but the family {family.name!r} has none. Leave it out.")
    p = start.means.shape[1]
    is_matrix = len(shape) == 3 or (len(shape) == 2 and not family.spread_per_topic)
    if not is_matrix:
        return positive_array(name, value, (), *([(p,)] if len(shape) == 2 else []), shape)
    if np.ndim(value) == 3:
        require(np.shape(value) == shape, f"{name} has shape {np.shape(value)}, expected {shape} or {(p, p)}.")
        return np.stack([covariance_matrix(name, matrix, p) for matrix in value])
    return np.broadcast_to(covariance_matrix(name, value, p), shape).copy()


def fixed_documents(checked: Checked, log_pi: FloatArray, scales: FloatArray) -> tuple[FloatArray, FloatArray]:
    """ln π (D, K) and s (D,) with what the user fixed."""
    n_documents, n_topics = log_pi.shape
    if "proportions" in checked.fixed_values:
        shape = (n_documents, n_topics)
        pi = positive_array("fixed['proportions']", checked.fixed_values["proportions"], (n_topics,), shape)
        sums = pi.sum(axis=1, keepdims=True)
        require(
            np.allclose(sums, 1.0, atol=1e-6),
            f"fixed['proportions'] must sum to 1 over topics, but sums to {sums[0, 0]:g}. Divide by the sum.",
        )
        log_pi = np.log(pi / sums)
    if "scales" in checked.fixed_values:
        scales = positive_array("fixed['scales']", checked.fixed_values["scales"], (), (n_documents,))
    return log_pi, scales


def _check_fixed(fixed: Any) -> dict[str, Any]:
    if fixed is None:
        return {}
    came = type(fixed).__name__ if not isinstance(fixed, dict) else [key for key in fixed if key not in FIXABLE]
    require(
        isinstance(fixed, dict) and not came,
        f"fixed accepts a dict with keys among {list(FIXABLE)}, but got {came}.",
    )
    return dict(fixed)
