"""Bodies of requests, validated against the signatures of what answers them before a model sees them."""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import signature
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema, create_model

_LONGEST, _MOST, _MOST_PER_USER = 500, 1_000, 100  # letters of an id or a label; lines; items of a list
_STRICT = ConfigDict(extra="forbid", strict=True)


def _read_id(value: Any) -> Any:
    if type(value) is str and 0 < len(value) <= _LONGEST and value.isprintable():
        return value
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    raise ValueError(f"an id is a whole number or text of 1 to {_LONGEST} printable letters")


def _read_label(value: Any) -> Any:
    if type(value) is bool or (type(value) is float and math.isfinite(value)):
        return value
    try:
        return _read_id(value)
    except ValueError as error:
        raise ValueError(str(error).replace("an id is a whole", "a rating or an answer is a")) from error


def _schema(*kinds: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": kind} for kind in kinds]})


Id = Annotated[Any, PlainValidator(_read_id), _schema("integer", "string")]
Label = Annotated[Any, PlainValidator(_read_label), _schema("number", "string", "boolean")]
Name = Annotated[str, PlainValidator(lambda value: str(_read_id(value))), _schema("string")]
Ids = Annotated[list[Id], Field(min_length=1, max_length=_MOST)]
Number = Annotated[int, Field(ge=1, le=_MOST_PER_USER)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)]
Answers = dict[Name, Label | None]
Rows = Annotated[list[Answers], Field(min_length=1, max_length=_MOST)]


class Rating(BaseModel):
    """A rating; without a user it is by a person who has no id."""

    model_config = _STRICT
    item: Id
    rating: Label
    user: Id | None = None
    timestamp: Label | None = None


Ratings = Annotated[list[Rating], Field(min_length=1, max_length=_MOST)]


def form_of(method: Callable[..., Any]) -> type[BaseModel]:
    """The arguments of a method as an object in JSON."""
    kinds = get_type_hints(method, include_extras=True)
    fields = {
        name: (kinds[name], ... if one.default is one.empty else one.default)
        for name, one in signature(method).parameters.items()
        if name != "self"
    }
    return create_model(method.__name__.title(), __config__=_STRICT, **fields)  # type: ignore[call-overload]
