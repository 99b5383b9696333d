"""Parse lines of Hive's ``OpenCSVSerde`` with Spark column expressions.

The SerDe uses opencsv 2.3, which has unusual rules for quotes inside fields. So ``_parse`` follows
the state machine of opencsv's ``CSVParser.parseLine``, character by character. Lines without
quotes, or with quotes only around whole fields, are split by faster expressions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from splitlib.spark.formats.hive_text_values import let
from splitlib.spark.schema import is_char_or_varchar

_STATE: Final = (
    "struct<fields:array<string>,text:string,quoted:boolean,inside:boolean,skip:boolean,at:int>"
)


def hive_csv_columns(
    line: Column, schema: StructType, serde_properties: Mapping[str, str]
) -> list[Column]:
    """Return the columns of an ``OpenCSVSerde`` table, parsed from its lines.

    Args:
        line: Column with a line of text, as ``spark.read.text`` returns it.
        schema: The data columns, without partition keys. All columns must be strings.
        serde_properties: Properties of the SerDe, as for
            :func:`~splitlib.spark.formats.hive_text.hive_text_columns`.

    Returns:
        One column per field of ``schema``, with its name and metadata.

    Raises:
        ValueError: if the table cannot be read exactly as Hive reads it.
    """
    for field in schema.fields:
        if not isinstance(field.dataType, StringType) or is_char_or_varchar(field):
            raise ValueError(
                f"OpenCSVSerde supports only strings; column {field.name!r} is another type"
            )
    if serde_properties.get("textinputformat.record.delimiter"):
        raise ValueError("custom record delimiters are not supported")
    separator = _char(serde_properties, "separatorChar", ",")
    quote = _char(serde_properties, "quoteChar", '"')
    escape = _char(serde_properties, "escapeChar", '"')
    # If the escape is `"`, the SerDe does not pass it to opencsv, whose default is the backslash.
    escape = "\\" if escape == '"' else escape
    if len({separator, quote, escape}) < 3 or separator == "\0":
        raise ValueError("OpenCSVSerde needs different characters as separator, quote and escape")
    # translate() converts the line to a Java string, and so replaces bytes that are not UTF-8.
    fields = _fields(F.translate(line, "", ""), separator, quote, escape)
    return [
        F.get(fields, F.lit(i)).alias(field.name, metadata=field.metadata)
        for i, field in enumerate(schema.fields)
    ]


def _char(properties: Mapping[str, str], key: str, default: str) -> str:
    value = properties.get(key, default)
    if not value or ord(value[0]) > 0xFFFF:
        raise ValueError(f"{key} = {value!r} does not begin with a single UTF-16 code unit")
    return value[0]


def _fields(line: Column, separator: str, quote: str, escape: str) -> Column:
    """Split a line into its fields. For an empty line, the result is NULL."""
    s, q, e = (re.escape(c) for c in (separator, quote, escape))
    field = f"(?:{q}[^{q}{e}]*+{q}|[^{s}{q}{e}]*+)"
    whole = F.transform(
        F.split(line, rf"{s}(?=(?:[^{q}]*+{q}[^{q}]*+{q})*+[^{q}]*+\z)"),
        lambda part: F.when(
            part.startswith(quote), F.substring(part, F.lit(2), F.length(part) - 2)
        ).otherwise(part),
    )
    return (
        F.when(line == "", None)
        .when(~line.contains(quote) & ~line.contains(escape), F.split(line, s))
        .when(line.rlike(rf"\A{field}(?:{s}{field})*+\z"), whole)
        .otherwise(let(F.split(line, ""), lambda chars: _parse(chars, separator, quote, escape)))
    )


def _parse(chars: Column, separator: str, quote: str, escape: str) -> Column:
    """Split the characters of a line into fields as ``CSVParser.parseLine`` does."""
    start = {
        "fields": F.array().cast("array<string>"),
        "text": F.lit(""),
        "quoted": F.lit(False),
        "inside": F.lit(False),
        "skip": F.lit(False),
        "at": F.lit(0),
    }
    return F.aggregate(
        F.sequence(F.lit(0), F.size(chars) - 1),
        _state(start),
        lambda old, i: _step(chars, old, i, separator, quote, escape),
        # opencsv drops the last field if its quote is not closed.
        lambda end: F.when(end["quoted"], end["fields"]).otherwise(
            F.concat(end["fields"], F.array(end["text"]))
        ),
    )


def _step(chars: Column, old: Column, i: Column, separator: str, quote: str, escape: str) -> Column:
    """Return the parser state after the character at ``i``."""
    text, quoted, inside = (old[name] for name in ("text", "quoted", "inside"))
    before, char, after = (F.get(chars, i + k) for k in (-1, 0, 1))
    # In Java, a character outside the basic multilingual plane has the length two.
    at = old["at"] + F.when(char > "\uffff", 2).otherwise(1)

    def changed(**parts: Column) -> Column:
        same = {name: old[name] for name in ("fields", "text", "quoted", "inside")}
        return _state(same | {"skip": F.lit(False), "at": at} | parts)

    within = quoted | inside
    with_next = F.concat(text, after)
    is_escaped = within & after.isin(quote, escape)
    is_double = within & after.eqNullSafe(quote)
    # A quote inside a field is kept, unless only whitespace precedes it.
    is_inner = (old["at"] > 2) & (before != separator) & (after != separator)
    is_blank = text.rlike(r"\A\p{javaWhitespace}+\z")
    kept = F.when(~F.coalesce(is_inner, F.lit(False)), text)
    kept = kept.when(is_blank, "").otherwise(F.concat(text, char))
    on_escape = F.when(is_escaped, changed(text=with_next, skip=F.lit(True)))
    on_quote = F.when(is_double, changed(text=with_next, inside=~inside, skip=F.lit(True)))
    next_field = F.concat(old["fields"], F.array(text))
    return (
        F.when(old["skip"], changed())
        .when(char == escape, on_escape.otherwise(changed()))
        .when(
            char == quote,
            on_quote.otherwise(changed(text=kept, quoted=~quoted, inside=~inside)),
        )
        .when(
            (char == separator) & ~quoted,
            changed(fields=next_field, text=F.lit(""), inside=F.lit(False)),
        )
        .otherwise(changed(text=F.concat(text, char), inside=F.lit(True)))
    )


def _state(parts: Mapping[str, Column]) -> Column:
    return F.struct(*(part.alias(name) for name, part in parts.items())).cast(_STATE)
