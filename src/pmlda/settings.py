"""Settings: everything that determines the result of a run ⇄ TOML. One model for code, command line and files."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, get_args

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, ValidationError, ValidationInfo, field_validator

from pmlda.errors import SettingsError
from pmlda.storage.tables import parse_toml, read_small
from pmlda.text import printable
from pmlda.validate import LARGEST_WHOLE, brief, nearest

ModelName = Literal["pmlda", "lda", "fcm", "bpm", "bfc", "gmm", "kmeans"]
MODELS: list[str] = list(get_args(ModelName))
# A few lines, and at most 255 names. Python's reader of TOML takes time and memory with the square of what a single
# line nests.
MOST_SETTINGS_BYTES, MOST_LINE_CHARACTERS = 2**17, 2**13
# As long as a path can be; Python refuses to read a number of 4300 digits.
MOST_CHARACTERS = 4096
# A variance between refits takes at least three of them, besides the fit itself.
FEW_REFITS = (1, 2)
# As many as an 8-bit image can show.
MOST_TOPICS = 255
# A name of a topic is a title and the head of a column.
LONGEST_NAME = 60
# Proportions that were rounded sum to one but for this.
ROUNDED = 1e-6

PositiveNumber = Annotated[float, Field(gt=0, lt=1e100)]


class Settings(BaseModel):
    """How to process a picture. Every field has a default; `pmlda segment --set name=value` sets any of them."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    topics: Annotated[int, Field(ge=1, le=MOST_TOPICS)] | Literal["auto"] = Field(
        3, description="number of topics; auto finds it by what predicts held-out documents best"
    )
    names: Annotated[tuple[str, ...], PlainSerializer(list)] = Field(
        (),
        description="names of the topics, in the order of the maps: dark to bright in a photograph, unless labels say "
        "which is which",
    )
    # reading
    key: str = Field(
        "",
        max_length=MOST_CHARACTERS,
        description="variable of a MATLAB, .npz, HDF5, NetCDF or Zarr file, or number of a TIFF series, from 0 (empty: "
        "the only one)",
    )
    z: Annotated[int, Field(ge=1, le=LARGEST_WHOLE)] | Literal["all", "max", "mean"] = Field(
        "all", description="slice of a stack, counted from 1, or max or mean of its slices; all are bands"
    )
    t: Annotated[int, Field(ge=1, le=LARGEST_WHOLE)] | Literal["all", "max", "mean"] = Field(
        "all", description="time of a series, counted from 1, or max or mean of its times; all are bands"
    )
    bands: str = Field(
        "all",
        min_length=1,
        max_length=MOST_LINE_CHARACTERS - 100,
        description="bands in the order to be read: numbers from 1 (5,4,3 or 10-40), wavelengths (650nm, 400-700nm) or "
        "names",
    )

    model: ModelName = Field("pmlda", description="pmlda, or a model for comparison: lda, fcm, bpm, bfc, gmm, kmeans")
    features: str = Field(
        "auto",
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="features computed for each pixel, see `pmlda features`",
    )
    documents: str = Field(
        "auto",
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="documents: whole, windows:64, slic:200, ncuts:40, …; auto is slic:60, more above 0.3 megapixels "
        "or 3 topics, but windows:8 for spectra and for families other than gaussian",
    )
    blend: float = Field(
        0.5, ge=0, le=10, description="blending across document borders, in document widths (0 disables it)"
    )
    sample: int = Field(
        400_000,
        ge=0,
        le=LARGEST_WHOLE,
        description="approximate number of pixels from which topics are learnt (0 uses all of them)",
    )
    block: int = Field(
        1024, ge=64, le=16384, description="side of a tile in pixels, for runs that write to .zarr or .tif"
    )
    halo: int = Field(
        0, ge=0, le=1024, description="margin around a tile in pixels that your own feature functions need"
    )
    scaling: Literal["auto", "standard", "whiten", "none"] = Field(
        "auto", description="scaling of the features; auto is standard, but for spectra what makes their noise even"
    )
    # Pixels whose values say that they shall not count.
    nodata: float | Literal["none"] = Field(
        "none", description="a number that means no data, in any band, besides the one that the file may name"
    )
    ignore_saturated: bool | float = Field(
        False,
        description="leave out saturated pixels: true for those at the largest number of their type in any band, or "
        "the number from which on they are saturated",
    )
    ignore_shadow: float | Literal["none"] = Field(
        "none",
        description="leave out acoustic shadow: squares of 9 × 9 pixels whose mean is this number or less",
    )
    # The distribution of a pixel. Which families there are is known where they are: pmlda.families.
    family: str = Field(
        "gaussian",
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="distribution of the features of a pixel: gaussian; poisson or additive-poisson for counts, gamma "
        "for speckle, bernoulli for zeros and ones, categorical for symbols",
    )
    looks: float = Field(
        1.0, gt=0, le=1e6, description="number of looks of speckle, the shape of family gamma (1 is single-look)"
    )
    covariance: Literal["auto", "isotropic", "diagonal", "full", "topic-diagonal", "topic-full"] = Field(
        "auto",
        description="covariance of the noise of family gaussian, shared by all topics or one for each topic; auto is "
        "full, but isotropic for spectra",
    )
    bounds: Literal["auto", "none"] = Field(
        "auto", description="bounds of topics; auto keeps them where features are possible, none lets them go anywhere"
    )
    known_spread: float = Field(
        0.0,
        ge=0,
        le=1e30,
        description="how far known topics may be from the truth, a standard deviation in units of the bands (0: not at "
        "all)",
    )
    engine: str = Field("variational", description="inference engine of pmlda and bpm: variational, gibbs or paper")
    alpha: float = Field(1.0, gt=0, description="concentration of the Dirichlet prior of document proportions")
    scale_rate: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        "auto",
        description="rate of the exponential prior of document scales; auto is 0.5, but 4 for spectra and 1 "
        "for additive-poisson",
    )
    design_effect: Literal["auto"] | Annotated[float, Field(ge=1)] = Field(
        "auto",
        description="how many neighbouring pixels repeat each other, of which engine gibbs visits one; auto estimates "
        "it, 1 counts every pixel in full",
    )
    n_init: int = Field(4, ge=1, le=1000, description="starts of engine variational, of which the best goes on")
    fixed: dict[Literal["scales", "proportions"], PositiveNumber | list[PositiveNumber]] = Field(
        {},
        description="what is known of all documents: scales = 0.5 how pixels mix (near 0 crisp, 10 and more like their "
        "document), proportions = [0.2, 0.8] how much of each topic they have, topics in that order",
    )
    refits: int = Field(
        6, ge=0, le=1000, description="refits on resampled documents, for honest uncertainty (0 leaves them out)"
    )
    sweeps: int = Field(
        1000, ge=1, le=10**9, description="number of sweeps of a sampler; maximum number for engine variational"
    )
    fuzzifier: float = Field(1.5, gt=1, description="fuzzifier of fcm and bfc (close to 1 gives crisp memberships)")
    dictionary: int = Field(100, ge=1, le=10**9, description="number of visual words of lda")
    seed: int = Field(0, ge=0, lt=2**32, description="random seed")
    low: float = Field(0.4, ge=0, le=1, description="lower limit of memberships that count as a transition")
    high: float = Field(0.6, ge=0, le=1, description="upper limit of memberships that count as a transition")

    @field_validator("names", mode="before")
    @classmethod
    def _separate(cls, names: Any) -> Any:
        """Names in one text are separated by commas; quotation marks enclose a name that has commas in it."""
        if isinstance(names, str):
            names = next(csv.reader([names], skipinitialspace=True), None) or [""]
        is_list = isinstance(names, list | tuple)
        return [each.strip() if isinstance(each, str) else each for each in names] if is_list else names

    @field_validator("key", "z", "t", "bands", mode="before")
    @classmethod
    def _as_written(cls, value: Any, field: ValidationInfo) -> Any:
        """What code gives in other forms: None for nothing, a number of a series, a list of bands."""
        if value is None:
            return cls.model_fields[str(field.field_name)].default
        if field.field_name == "bands" and isinstance(value, list | tuple | range):
            return ",".join(str(each) for each in value)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return str(value) if is_number and field.field_name in ("key", "bands") else value

    @property
    def reading(self) -> dict[str, Any]:
        """What to read of a picture, as arguments of pmlda.read_image."""
        asked = {"z": self.z, "t": self.t, "bands": self.bands}
        return {"key": self.key or None} | {name: None if value == "all" else value for name, value in asked.items()}

    @property
    def ignored_values(self) -> dict[str, Any]:
        """Which values of pixels do not count, as arguments of read_image; empty if all of them do."""
        chosen = {name: getattr(self, name) for name in ("nodata", "ignore_saturated", "ignore_shadow")}
        return {name: value for name, value in chosen.items() if value is not False and value != "none"}

    @property
    def n_topics(self) -> int:
        """The number of topics, which a run with "auto" has found before all else."""
        assert self.topics != "auto", "The number of topics is not known yet."
        return self.topics

    @property
    def topic_names(self) -> tuple[str, ...]:
        """What the topics are called in files and figures."""
        return self.names or tuple(f"topic {k + 1}" for k in range(self.n_topics))


class ReadingSettings(TypedDict, total=False):
    """Settings that say what to read of a picture."""

    key: str | int | None
    z: int | str | None
    t: int | str | None
    bands: str | int | Sequence[str | int] | None


class MoreSettings(ReadingSettings, total=False):
    """Settings that segment() takes by name, beside those that are arguments of its own."""

    names: Sequence[str]
    blend: float
    sample: int
    block: int
    halo: int
    scaling: str
    nodata: float | Literal["none"]
    ignore_saturated: bool | float
    ignore_shadow: float | Literal["none"]
    family: str
    looks: float
    covariance: str
    bounds: str
    alpha: float
    scale_rate: float | Literal["auto"]
    design_effect: str | float
    n_init: int
    fixed: dict[str, Any]
    refits: int
    sweeps: int
    fuzzifier: float
    dictionary: int
    low: float
    high: float


def make_settings(*tables: dict[str, Any]) -> Settings:
    """Settings from tables of names and values; later tables override earlier ones.

    >>> make_settings({"topics": 4}, {"documents": "slic:100"}).documents
    'slic:100'
    """
    merged: dict[str, Any] = {}
    for table in tables:
        merged |= table
    for name in merged:
        if name not in Settings.model_fields:
            known = list(Settings.model_fields)
            raise SettingsError(
                f"There is no setting {brief(name)}. {nearest(name, known)}There are: {', '.join(known)}."
            )
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        known = [each for each in get_args(Settings.model_fields[name].annotation) if isinstance(each, str)]
        hint = nearest(first["input"], known) if known and isinstance(first["input"], str) else ""
        # A setting that may be a word or a number has an error for each.
        said = [each["msg"] for each in error.errors() if each["loc"][0] == name]
        reasons = f"{said[0]}{''.join(f', or {each[0].lower()}{each[1:]}' for each in said[1:])}"
        raise SettingsError(f"Setting {name} = {brief(first['input'])} cannot be used: {hint}{reasons}.") from None
    check_names(settings)
    check_fixed(settings)
    if settings.refits in FEW_REFITS:
        raise SettingsError(
            f"Setting refits = {settings.refits} cannot be used: so few tell nothing about the spread between them. "
            "Give 0, or at least 3."
        )
    if settings.low > settings.high:
        raise SettingsError(
            f"Settings low = {settings.low:g} and high = {settings.high:g} leave nothing between them: "
            "give a low that is at most high."
        )
    return settings


def check_names(settings: Settings) -> None:
    """Refuse names that are not one for each topic, or that cannot be told apart or shown."""
    names = settings.names
    if settings.topics == "auto" and (names or "proportions" in settings.fixed):
        given = "names" if names else "fixed proportions"
        raise SettingsError(f"Setting topics = 'auto', but {given} say how many there are. Give the number of topics.")
    if names and len(names) != settings.topics:
        raise SettingsError(
            f"Setting names has {len(names)} of them for {settings.topics} topics: {brief(list(names))}. "
            "Give one for each topic, or none."
        )
    for k, name in enumerate(names):
        faults = {
            "it is empty": not name,
            "another topic has it too": name in names[:k],
            f"it has {len(name)} characters, more than {LONGEST_NAME}": len(name) > LONGEST_NAME,
            "it has characters that cannot be shown": printable(name) != name,
        }
        found = next((fault for fault, is_so in faults.items() if is_so), None)
        if found is not None:
            raise SettingsError(f"Name {brief(name)} of topic {k + 1} cannot be used: {found}. Give another.")


def check_fixed(settings: Settings) -> None:
    """Refuse fixed values that are not those of all documents."""
    scales, proportions = settings.fixed.get("scales", 1.0), settings.fixed.get("proportions")
    if isinstance(scales, list):
        raise SettingsError(f"Setting fixed has scales = {brief(scales)}: give one number, which holds everywhere.")
    if proportions is None:
        return
    if not isinstance(proportions, list) or len(proportions) != settings.topics:
        raise SettingsError(
            f"Setting fixed has proportions = {brief(proportions)} for {settings.topics} topics: give one number for "
            "each topic."
        )
    if abs(sum(proportions) - 1.0) > ROUNDED:
        raise SettingsError(f"Setting fixed has proportions that sum to {sum(proportions):g}: they must sum to 1.")


def read_settings(path: str | Path) -> dict[str, Any]:
    """The table in a TOML file, not yet validated."""
    try:
        text = read_small(path, MOST_SETTINGS_BYTES, SettingsError).decode("utf-8")
        if max(map(len, text.splitlines()), default=0) > MOST_LINE_CHARACTERS:
            raise SettingsError(f"Settings file {str(path)!r} has a line that is too long for any setting.")
        return parse_toml(text)
    except SettingsError:
        raise
    except OSError as error:
        raise SettingsError(f"Settings file {str(path)!r} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise SettingsError(f"Settings file {str(path)!r} is not TOML: {error}.") from None


def write_settings(settings: Settings) -> str:
    """Settings as TOML, each with its description as a comment.

    >>> print(write_settings(make_settings({"topics": 4})).splitlines()[1])
    topics = 4
    """
    lines = []
    for name, value in settings.model_dump().items():
        lines += [f"# {Settings.model_fields[name].description}", f"{name} = {to_toml(value)}"]
    return "\n".join(lines) + "\n"


def to_toml(value: Any) -> str:
    """A value as TOML has it after the equals sign; tables in one line, because what follows them is not theirs.

    >>> to_toml({"scales": 2.0}), to_toml({})
    ('{ scales = 2.0 }', '{}')
    """
    if isinstance(value, dict):
        inside = ", ".join(f"{name} = {to_toml(each)}" for name, each in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return tomli_w.dumps({"value": value}).strip().removeprefix("value = ")


def parse_assignment(text: str) -> dict[str, Any]:
    """One `name=value` of the command line; the value is parsed as TOML, or else taken as text.

    >>> parse_assignment("topics=4"), parse_assignment("documents=slic:200")
    ({'topics': 4}, {'documents': 'slic:200'})
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SettingsError(f"--set {text!r}: expected name=value, for example --set scale_rate=0.1.")
    try:
        return {name.strip(): parse_toml(f"value = {value}")["value"]}
    except ValueError:
        return {name.strip(): value.strip()}
