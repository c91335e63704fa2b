"""Settings: what decides what a run makes of a picture ⇄ TOML. One model for code, command line and files."""

import tomllib
from pathlib import Path
from typing import Any, Literal, TypedDict, get_args

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pmlda.errors import SettingsError
from pmlda.validate import nearest

ModelName = Literal["pmlda", "lda", "fcm", "bpm", "bfc", "gmm", "kmeans"]
MODELS: list[str] = list(get_args(ModelName))
MOST_SETTINGS_BYTES = 2**20
# As long as a path can be; Python refuses to read a number of 4300 digits.
MOST_CHARACTERS = 4096


class Settings(BaseModel):
    """What to do with a picture. Every field has a default; `pmlda segment --set name=value` sets any of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topics: int = Field(3, ge=1, le=255, description="how many topics")
    model: ModelName = Field("pmlda", description="pmlda, or one to compare with: lda, fcm, bpm, bfc, gmm, kmeans")
    features: str = Field(
        "auto", min_length=1, max_length=MOST_CHARACTERS, description="computed for each pixel, see `pmlda features`"
    )
    documents: str = Field(
        "auto",
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="whole, windows:64, slic:200, ncuts:40, …; auto is slic:200",
    )
    blend: float = Field(0.5, ge=0, le=10, description="over the borders of documents, in their own width; 0 is none")
    sample: int = Field(
        400_000, ge=0, description="pixels from which topics are learnt, some of each document; 0 is all"
    )
    block: int = Field(
        1024, ge=64, le=16384, description="side of the blocks of pictures written to .zarr or .tif, in pixels"
    )
    halo: int = Field(0, ge=0, le=1024, description="pixels around a block that a feature function of yours looks at")
    scaling: Literal["standard", "whiten", "none"] = Field("standard", description="of the features")
    covariance: Literal["isotropic", "diagonal", "full"] = Field("full", description="of the noise, shared by topics")
    engine: str = Field("variational", description="inference of pmlda and bpm: variational, gibbs or paper")
    alpha: float = Field(1.0, gt=0, description="of the Dirichlet prior of each document's proportions")
    scale_rate: float = Field(0.5, gt=0, description="of the exponential prior of each document's scale")
    sweeps: int = Field(1000, ge=1, description="of the samplers; at most so many of engine variational")
    fuzzifier: float = Field(1.5, gt=1, allow_inf_nan=False, description="of fcm and bfc; near 1 is crisp")
    dictionary: int = Field(100, ge=1, description="visual words of lda")
    seed: int = Field(0, ge=0, lt=2**32, description="of all random numbers")
    low: float = Field(0.4, ge=0, le=1, description="a transition is where some membership is at least this")
    high: float = Field(0.6, ge=0, le=1, description="and at most this")


class MoreSettings(TypedDict, total=False):
    """Settings that segment() takes by name, beside those that are arguments of its own."""

    blend: float
    sample: int
    block: int
    halo: int
    scaling: str
    covariance: str
    alpha: float
    scale_rate: float
    sweeps: int
    fuzzifier: float
    dictionary: int
    low: float
    high: float


def make_settings(*tables: dict[str, Any]) -> Settings:
    """Settings from tables of names and values, later ones before earlier ones.

    >>> make_settings({"topics": 4}, {"documents": "slic:100"}).documents
    'slic:100'
    """
    merged: dict[str, Any] = {}
    for table in tables:
        merged |= table
    for name in merged:
        if name not in Settings.model_fields:
            known = list(Settings.model_fields)
            raise SettingsError(f"There is no setting {name!r}. {nearest(name, known)}There are: {', '.join(known)}.")
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        known = [each for each in get_args(Settings.model_fields[name].annotation) if isinstance(each, str)]
        hint = nearest(str(first["input"]), known) if known else ""
        raise SettingsError(f"Setting {name} = {first['input']!r} cannot be used: {hint}{first['msg']}.") from None
    if settings.low > settings.high:
        raise SettingsError(
            f"Settings low = {settings.low:g} and high = {settings.high:g} leave nothing between them: "
            "give a low that is at most high."
        )
    return settings


def read_settings(path: str | Path) -> dict[str, Any]:
    """The table in a TOML file, not yet checked."""
    path = Path(path)
    try:
        if path.stat().st_size > MOST_SETTINGS_BYTES:
            raise SettingsError(f"{str(path)!r} is too large to be a settings file.")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"Settings file {str(path)!r} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"Settings file {str(path)!r} is not TOML: {error}.") from None


def write_settings(settings: Settings) -> str:
    """Settings as TOML, with what each one means.

    >>> print(write_settings(make_settings({"topics": 4})).splitlines()[1])
    topics = 4
    """
    lines = []
    for name, value in settings.model_dump().items():
        lines += [f"# {Settings.model_fields[name].description}", tomli_w.dumps({name: value}).strip()]
    return "\n".join(lines) + "\n"


def parse_assignment(text: str) -> dict[str, Any]:
    """One `name=value` of the command line; the value as TOML, or else as text.

    >>> parse_assignment("topics=4"), parse_assignment("documents=slic:200")
    ({'topics': 4}, {'documents': 'slic:200'})
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SettingsError(f"--set {text!r}: expected name=value, for example --set scale_rate=0.1.")
    try:
        return {name.strip(): tomllib.loads(f"value = {value}")["value"]}
    except tomllib.TOMLDecodeError:
        return {name.strip(): value.strip()}
