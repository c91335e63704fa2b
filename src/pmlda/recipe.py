"""Recipe: how pixels become words, and the model that says how much of each topic they have ⇄ one model file."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pmlda.errors import ModelFileError
from pmlda.features.given import Function
from pmlda.features.scaling import Scaling
from pmlda.features.stack import Features
from pmlda.settings import Settings, make_settings
from pmlda.storage import archive
from pmlda.types import DocumentPosterior, FloatArray, IntArray, Verdict
from pmlda.validate import brief, positive_array, real_array, require, texts


class Model(Protocol):
    """What PMLDA and its peers have in common, as far as pictures need it.

    samples_words : whether a sample of the words is enough to learn topics, and maps follow from topics and documents
    minds_groups : whether the memberships of a row depend on its document
    takes_checkpoint : whether fit(checkpoint=…) can be resumed
    """

    n_jobs: Any
    n_iter_: int
    n_features_in_: int
    seed_: int
    topic_means_: FloatArray
    memberships_: NDArray[np.floating]
    proportions_: FloatArray
    scales_: FloatArray
    documents_: NDArray[np.generic]
    document_sizes_: IntArray
    n_components: int
    verdict_: Verdict

    @property
    def samples_words(self) -> bool: ...
    @property
    def minds_groups(self) -> bool: ...
    @property
    def takes_checkpoint(self) -> bool: ...
    @property
    def membership_std_(self) -> NDArray[np.floating]: ...
    def fit(self, X: Any, y: object = None, *, groups: Any = None, **kept: Any) -> "Model": ...
    def infer_documents(self, X: Any, *, groups: Any, **told: Any) -> DocumentPosterior: ...
    def infer_memberships(self, X: Any, y: Any = None, *, groups: Any, priors: Any) -> DocumentPosterior: ...
    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def to_content(self, *, rows: bool = True) -> dict[str, Any]: ...
    @classmethod
    def from_content(cls, content: dict[str, Any]) -> "Model": ...
    @classmethod
    def from_fit(cls, *found: Any) -> "Model": ...


def find_model(name: str) -> Any:
    """The class of a model by its name; it is imported when it is used."""
    if name == "pmlda":
        return import_module("pmlda.estimator").PMLDA
    return import_module("pmlda.peers").find_peer(name)


class Calibration(NamedTuple):
    """What is usual among the pixels that topics were learnt from: how far they are from what is predicted.

    sizes : (K, 1) usual squared distance of pixels of each topic, in the order of the model; (K, 2) with that of what
        principal components leave out
    quantiles : (Q,) of the distance in units of these; what is farther than the i-th has the share tail^(i / (Q − 1))
    tail, power : the share that is farther than the last, which falls with this power of the distance
    """

    sizes: FloatArray
    quantiles: FloatArray
    tail: float
    power: float

    @classmethod
    def from_content(cls, content: Any, n_topics: int) -> "Calibration":
        """What a model file holds of it, checked."""
        n_misfits = np.shape(content["sizes"])[-1]
        require(n_misfits in (1, 2), f"its usual distances are of {n_misfits} kinds")
        sizes = positive_array("sizes", content["sizes"], (n_topics, n_misfits))
        quantiles = real_array("quantiles", content["quantiles"], (len(content["quantiles"]),))
        rising = len(quantiles) > 1 and quantiles[0] >= 0 and bool((np.diff(quantiles) >= 0).all())
        require(rising, "its quantiles do not rise")
        tail, power = (float(real_array(name, content[name], ())) for name in ("tail", "power"))
        require(0 < tail < 1 and power > 0, f"its tail of {tail:g} falls with the power {power:g}")
        return cls(sizes, quantiles, tail, power)


class Recipe(NamedTuple):
    """What was learnt, enough to treat another picture alike.

    features, scaling : pixels → words
    model : words → memberships, topics in its own order
    order : (K,) topic j of the maps is topic order[j] of the model
    settings : what was asked for
    thinning : one pixel in so many is a word, the others repeat them; None if all are words
    usual : how far pixels are from what is predicted, so that others can be told to be new; None if that is not known
    """

    features: Features
    scaling: Scaling
    model: Model
    order: IntArray
    settings: Settings
    thinning: float | None = None
    usual: Calibration | None = None

    @property
    def topics(self) -> FloatArray:
        """(K, p) mean of each topic in units of the features, or of the bands, in the order of the maps.

        Of topics that are distributions of symbols, the probability of each.
        """
        return self.to_features(self.model.topic_means_)

    def to_features(self, means: FloatArray) -> FloatArray:
        """(K, p) means of topics as the model has them, in units of the features and in the order of the maps."""
        if has_symbols(self.model):
            return means[self.order]
        return self.features.undo(self.scaling.undo(means))[self.order]

    def inverse_transform(self, shares: Any) -> FloatArray:
        """(…, p) expected features, or spectra in units of the bands, of shares (…, K) in the order of the maps.

        NaN, which says that there is no data, stays NaN.
        """
        expect: Any = getattr(self.model, "inverse_transform", None)
        require(expect is not None, f"Model {self.settings.model!r} does not tell what pixels are expected.")
        given = np.asarray(shares, np.float64)
        n_topics = len(self.order)
        right = given.ndim >= 1 and given.shape[-1] == n_topics
        require(right, f"memberships have shape {given.shape}: give an array (…, {n_topics}).")
        rows = given.reshape(-1, n_topics)
        known = np.isfinite(rows).all(axis=1)
        weights = self.share_weights
        z = rows[known] if weights is None else rows[known] / weights
        z = z / z.sum(axis=1, keepdims=True) if weights is not None else z
        of_model = np.empty_like(z)
        of_model[:, self.order] = z
        found = np.full((len(rows), len(self.feature_names)), np.nan)
        found[known] = self.features.undo(self.scaling.undo(expect(of_model)))
        return found.reshape(*given.shape[:-1], -1)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """(p,) what the values of topics are."""
        if has_symbols(self.model):
            return symbol_names(self.model)
        return self.features.undone_names

    @property
    def share_weights(self) -> FloatArray | None:
        """(K,) what makes shares of memberships, in the order of the maps; None if they are shares."""
        if has_symbols(self.model):
            return None
        found = share_weights(self.model.topic_means_, self.features, self.scaling)
        return None if found is None else found[self.order]


def has_symbols(model: Model) -> bool:
    """Whether topics are probabilities of symbols rather than points among the words."""
    family = getattr(model, "family_", None)
    return family is not None and not family.means_among_words


def symbol_names(model: Model) -> tuple[str, ...]:
    """(V,) what the values of topics are, if they are probabilities of symbols."""
    return tuple(f"symbol {v}" for v in range(model.topic_means_.shape[1]))


def share_weights(means: FloatArray, features: Features, scaling: Scaling) -> FloatArray | None:
    """(K,) what memberships in topics with these means are multiplied by to become shares; None if they are shares.

    Features and scaling may project words, and projections keep straight lines straight, but not what is half-way.
    """
    found = [scaling.share_weights(means), features.share_weights(scaling.undo(means))]
    known = [each for each in found if each is not None]
    return np.prod(known, axis=0) if known else None


def save_recipe(path: Path, recipe: Recipe) -> None:
    """A model file that PMLDA.load reads too, if it is one; beside the model it holds how pixels become words."""
    picture = {
        "features": recipe.features.state(),
        "scaling": recipe.scaling.state(),
        "order": recipe.order,
        "settings": recipe.settings.model_dump(),
        "thinning": recipe.thinning,
        "usual": None if recipe.usual is None else recipe.usual._asdict(),
    }
    content = recipe.model.to_content(rows=False)
    if "n_jobs" in content["parameters"]:  # a model file is the same, however many threads made it
        content["parameters"]["n_jobs"] = None
    archive.save(path, content | {"picture": picture})


def _read(path: str | Path) -> dict[str, Any]:
    """What a model file holds. Families register what that may be, and nothing else may have imported them yet."""
    import_module("pmlda.families")
    return archive.load(path)


def model_facts(path: str | Path) -> dict[str, Any]:
    """What a model file holds, in numbers and texts; topics as in the maps if it belongs to pictures."""
    content = _read(path)
    with archive.usable(path):
        model = model_of(content)
        of_pmlda, of_pictures, named = {}, {}, {}
        means, names = model.topic_means_, [f"feature {j + 1}" for j in range(model.n_features_in_)]
        if has_symbols(model):
            names = list(symbol_names(model))
        if hasattr(model, "family_"):
            of_pmlda = {"family": type(model.family_).__name__, "engine": model.get_params()["engine"]}
        if "picture" in content:
            words = _words_of(content["picture"], model)
            if has_symbols(model):
                means = means[words.order]
            else:
                names, means = list(words.names), words.scaling.undo(means)[words.order]
            if not (words.functions or has_symbols(model)):
                features = Features.from_state(words.features)
                names, means = list(features.undone_names), features.undo(means)
            named = {"names": list(words.settings.topic_names)}
            of_pictures = {"computed": ", ".join(words.spec), "cut": words.settings.documents}
    return {
        "model": getattr(model, "name", "pmlda"),
        "topics": int(model.n_components),
        **named,
        "features": names,
        **of_pmlda,
        **of_pictures,
        "documents": len(model.documents_),
        "words": int(model.document_sizes_.sum()),
        "sweeps": int(model.n_iter_),
        "topic_means": means.tolist(),
    }


class Words(NamedTuple):
    """How pixels become words, as a model file has it, checked. features : what Features.from_state takes"""

    features: dict[str, Any]
    spec: tuple[str, ...]
    functions: tuple[str, ...]
    names: tuple[str, ...]
    scaling: Scaling
    order: IntArray
    settings: Settings
    thinning: float | None
    usual: Calibration | None


def _words_of(picture: Any, model: Model) -> Words:
    """The part of a model file that belongs to pictures; InputError if its parts do not fit each other or the model."""
    require(isinstance(picture, dict) and isinstance(picture["features"], dict), "its picture is no table of tables")
    features, scaling = picture["features"], Scaling.from_state(picture["scaling"])
    spec, functions, names = (texts(name, features[name]) for name in ("spec", "functions", "names"))
    require(
        scaling.n_values == len(names) and scaling.n_words == model.n_features_in_,
        f"its {len(names)} features, its scaling and its model do not fit each other",
    )
    order = np.asarray(picture["order"])
    are_whole, topics = order.dtype.kind in "iu" and order.ndim == 1, np.arange(model.n_components)
    require(are_whole and np.array_equal(np.sort(order), topics), "its order of topics is not one")
    with np.errstate(all="ignore"):
        sound = has_symbols(model) or bool(np.isfinite(scaling.undo(model.topic_means_)).all())
        require(sound, "its topics are too large")
    thinning = picture.get("thinning")
    if thinning is not None:
        thinning = float(real_array("thinning", thinning, ()))
        require(thinning >= 1.0, "its thinning is less than 1")
    settings = make_settings(picture["settings"])
    require(settings.topics == model.n_components, f"its settings are those of {settings.topics} topics")
    usual = picture.get("usual")
    usual = None if usual is None else Calibration.from_content(usual, model.n_components)
    return Words(features, spec, functions, names, scaling, order.astype(np.int64), settings, thinning, usual)


def model_of(content: dict[str, Any]) -> Model:
    """The model that the content of a model file describes."""
    name = content.get("model", "pmlda")
    require(isinstance(name, str), f"it holds a model {brief(name)}")
    parts = [content.get(each) for each in ("parameters", "fitted")]
    require(all(isinstance(part, dict) for part in parts), "its parameters and results are no tables")
    model: Model = find_model(name).from_content(content)
    return model


def load_recipe(path: str | Path, functions: Mapping[str, Function] | None = None) -> Recipe:
    """What save_recipe wrote. Safe for untrusted files.

    functions : those that were given as features, by name; a model file does not hold them
    """
    content = _read(path)
    if "picture" not in content:
        raise ModelFileError(
            f"{str(path)!r} holds a model but not how pixels become words, so it cannot be applied to a picture. "
            "Use a model.pmlda from the folder of `pmlda segment`."
        )
    with archive.usable(path):
        model = model_of(content)
        words = _words_of(content["picture"], model)
        missing = [name for name in words.functions if name not in (functions or {})]
    if missing:
        raise ModelFileError(
            f"{str(path)!r} was learnt on features that are functions of yours, which are not saved: "
            f"{', '.join(missing)}. Give them again, in Python: "
            f"pmlda.recipe.load_recipe(path, functions={{{', '.join(f'{name!r}: …' for name in missing)}}})."
        )
    with archive.usable(path):
        features = Features.from_state(words.features, functions)
        recipe = Recipe(features, words.scaling, model, words.order, words.settings, words.thinning, words.usual)
        with np.errstate(all="ignore"):
            require(bool(np.isfinite(recipe.topics).all()), "its topics are too large")
        return recipe
