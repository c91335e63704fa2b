"""run.json of a result → a checked record of the run. Anyone may have written the file."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from pmlda.errors import OutputError, PmldaError
from pmlda.output.places import beside, is_tiled
from pmlda.storage.tables import parse_json, read_small
from pmlda.validate import LARGEST_WHOLE, ROUNDING

MOST_RECORD_BYTES = 2**23


def _text(value: Any) -> str:
    """A text that can be written to a file; names of files that are not UTF-8 have parts that stand for their bytes."""
    if not isinstance(value, str):
        raise PmldaError("Input should be a text")
    value.encode("utf-8", "surrogateescape")
    return value


Text = Annotated[str, PlainValidator(_text)]
Count = Annotated[int, Field(ge=0, le=LARGEST_WHOLE)]
Length = Annotated[int, Field(ge=1, le=LARGEST_WHOLE)]
Shape = Annotated[list[Length], Field(min_length=3, max_length=3)]


class _Table(BaseModel):
    """What this version does not know is left out."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


Share = Annotated[float, Field(ge=0, le=1 + ROUNDING)]


class Agreed(_Table):
    """How well a stroke agrees with its pixels, see pmlda.labels.agreement.Agreement."""

    stroke: Length
    said: Text
    found: list[Share]
    std: list[Share]
    overlap: Share
    contradiction: Text = ""


class Told(_Table):
    """The labels of a picture. file : beside its maps"""

    file: Text
    strokes: Count
    pixels: Count
    agreement: list[Agreed] = []


class ShareOfTopic(_Table):
    """How much of a picture a topic has, see pmlda.types.Share."""

    topic: Text
    share: Share
    low: Share | None = None
    high: Share | None = None
    pixels: Annotated[float, Field(ge=0)]
    area: Annotated[float, Field(ge=0)] | None = None
    unit: Text = ""


class MatchOfTopic(_Table):
    """An entry of a spectral library, see pmlda.types.Match."""

    name: Text
    angle: Annotated[float, Field(ge=0, le=180)]
    n_bands: Length


class Checked(_Table):
    """Whether the topics explain a picture, see pmlda.types.FitCheck."""

    state: Literal["fits", "does_not_fit", "unknown"]
    figures: dict[Text, float] = {}
    sentence: Text = ""
    advice: Text = ""


class Picture(_Table):
    """One picture of a run. shape : rows, columns and bands"""

    name: Text
    shape: Shape
    bands: list[Text]
    pixels_without_data: Count = 0
    sha256: Text | None = None
    notes: list[Text] = []
    labels: Told | None = None
    shares: list[ShareOfTopic] = []
    fit: Checked | None = None


class Absent(_Table):
    """A picture that was found, but could not be used, see pmlda.types.LeftOut."""

    path: Text
    reason: Text


class Chosen(_Table):
    """How the number of topics was chosen, see pmlda.howmany.Choice."""

    n_topics: Length
    tried: Annotated[list[Length], Field(min_length=1)]
    scores: list[float]
    errors: list[Annotated[float, Field(ge=0)]]
    gaps: list[Annotated[float, Field(ge=0)]]
    worths: list[Share]
    splits: list[Share]
    reason: Text


class Record(_Table):
    """What the run.json of a result folder says of its run."""

    settings: dict[Text, Text | bool | int | float | list[Text] | dict[Text, float | list[float]] | None]
    topics: list[Text] = []
    features: list[Text]
    seed: Count
    sweeps: Count
    verdict: Text
    state: Text = "unknown"
    interrupted: bool = False
    applied: bool = False
    seconds: dict[Text, Annotated[float, Field(ge=0)]]
    pictures: Annotated[list[Picture], Field(min_length=1)]
    left_out: list[Absent] = []
    matches: list[Annotated[list[MatchOfTopic], Field(min_length=1)]] = []
    choice: Chosen | None = None
    versions: dict[Text, Text] = {}
    written: Text = ""
    run: Text | None = None


class TiledRecord(Record):
    """The same for maps that were computed tile by tile, of one picture. documents, shape : of the whole picture"""

    pictures: Annotated[list[Picture], Field(min_length=1, max_length=1)]
    documents: Length
    pixels_with_data: Count
    shape: Shape
    tiles: Count = 0
    tile: Count = 0
    threads: Count = 0
    log: list[dict[str, Any]] = []


def read_record(result: str | Path) -> dict[str, Any]:
    """What the run.json of a result says of its run, checked."""
    path = Path(result)
    file, foreign = beside(path, "run.json"), f"{str(path)!r} is not a folder that `pmlda segment` wrote"
    try:
        content = parse_json(read_small(file, MOST_RECORD_BYTES, OutputError))
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"{foreign} (its run.json: {error.strerror}).") from None
    except ValueError:
        raise OutputError(f"{foreign} (its run.json is damaged).") from None
    if not isinstance(content, dict):
        raise OutputError(f"{foreign} (its run.json is damaged).")
    try:
        record = (TiledRecord if is_tiled(path) else Record).model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(each) for each in first["loc"][:3])
        raise OutputError(
            f"The result in {str(path)!r} cannot be used: in its run.json, {where!r} is wrong ({first['msg']}). "
            "Run `pmlda segment` again."
        ) from None
    return record.model_dump(exclude_unset=True) | {"interrupted": record.interrupted}
