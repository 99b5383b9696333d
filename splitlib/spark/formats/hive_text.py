r"""Parse Hive's delimited text (``LazySimpleSerDe``) with Spark column expressions.

The rows are equal to the rows that Spark's own Hive reader returns. Because no Hive classes are
used, a scan can read a fixed list of files, even on Spark Connect. The rules are those of Hive 2.3,
which is part of Spark. Each nesting level has its own separator byte. A byte after an escape byte
is not a separator. Values that cannot be parsed are NULL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.types import StringType, StructType

from splitlib.spark.conversion import declared_type, is_char_or_varchar
from splitlib.spark.formats import hive_text_values as values
from splitlib.spark.formats.hive_text_values import let

# Character that this module inserts before each escaped byte, to mark it. Lines are decoded as
# ISO-8859-1, so they cannot contain this character.
_ESCAPED: Final = "\ue000"

_EXTENDED_BOOLEANS: Final = "hive.lazysimple.extended_boolean_literal"
_RECORD_DELIMITER: Final = "textinputformat.record.delimiter"
HADOOP_SETTINGS: Final = (_EXTENDED_BOOLEANS, _RECORD_DELIMITER)
"""Hadoop settings of a session that change how Hive reads text."""

_REGEX_SPECIAL: Final = frozenset(".$|()[{^?*+\\")


def hive_text_columns(
    line: Column,
    schema: T.StructType,
    serde_properties: Mapping[str, str],
    *,
    time_zone: str | None = None,
) -> list[Column]:
    """Return the columns of a Hive text table, parsed from its lines.

    Args:
        line: Column with a line of text, as ``spark.read.text`` returns it.
        schema: The data columns, without partition keys. CHAR and VARCHAR are strings with the
            declared type in their metadata, as in any Spark schema.
        serde_properties: Properties of the table's SerDe, the table and the partition, merged in
            this order, then the session's settings in ``HADOOP_SETTINGS``. Later values override
            earlier ones.
        time_zone: Time zone in which timestamps were written, see
            :func:`splitlib.spark.conversion.jvm_time_zone`. Required only for timestamps.

    Returns:
        One column per field of ``schema``, with its name, type and metadata.

    Raises:
        ValueError: if the table cannot be read exactly as Hive reads it.
    """
    reader = _Reader(_Format.parse(serde_properties), time_zone)
    parts = reader.split(reader.tokens(line), len(schema.fields), level=0)
    fields = reader.fields(parts, schema, level=0)
    return [
        value.cast(field.dataType).alias(field.name, metadata=field.metadata)
        for value, field in zip(fields, schema.fields, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Format:
    """A table's text format: separators, escape character and NULL text."""

    separators: tuple[str, ...]
    """One separator per nesting level, each an ISO-8859-1 character."""
    escape: str | None
    null: str
    """Text that stands for NULL. Its bytes are decoded as ISO-8859-1."""
    last_takes_rest: bool
    timestamp_formats: str | None
    extended_booleans: bool
    """Whether the texts t, T, 1, f, F and 0 are booleans too."""

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> _Format:
        encoding = properties.get("serialization.encoding", "UTF-8")
        if encoding.upper() not in {"UTF-8", "UTF8"}:
            raise ValueError(f"encoding {encoding!r} is not supported, only UTF-8")
        if properties.get(_RECORD_DELIMITER):
            raise ValueError("custom record delimiters are not supported")
        escape = properties.get("escape.delim")
        return cls(
            separators=tuple(map(chr, _separators(properties))),
            escape=None if escape is None else chr(_byte(escape, ord("\\"))),
            null=properties.get("serialization.null.format", "\\N")
            .encode("utf-8", "surrogatepass")
            .decode(values.BYTES),
            last_takes_rest=_is_true(properties, "serialization.last.column.takes.rest"),
            timestamp_formats=properties.get("timestamp.formats"),
            extended_booleans=_is_true(properties, _EXTENDED_BOOLEANS),
        )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Converts tokens to values.

    A token is a part of a line, decoded as ISO-8859-1, with a mark before each escaped byte.
    """

    format: _Format
    time_zone: str | None

    def tokens(self, line: Column) -> Column:
        """Decode a line as ISO-8859-1 and mark its escaped bytes."""
        text = F.decode(line.cast("binary"), values.BYTES)
        if self.format.escape is None:
            return text
        return F.regexp_replace(text, _pattern(self.format.escape) + r"([\s\S])", _ESCAPED + "$1")

    def split(self, tokens: Column, width: int, level: int) -> Column:
        """Split a token into the ``width`` fields of a struct.

        The result may have one additional part, which contains the rest of the text.
        """
        limit = width if self.format.last_takes_rest else width + 1
        return F.split(tokens, self.separator(level), limit)

    def fields(self, parts: Column, schema: T.StructType, level: int) -> Iterator[Column]:
        """Yield one column per field. Missing fields are NULL, and additional parts are ignored."""
        for i, field in enumerate(schema.fields):
            yield self.value(F.get(parts, F.lit(i)), declared_type(field), level + 1)

    def value(self, tokens: Column, data_type: T.DataType, level: int) -> Column:
        """Convert a token to a value. ``level`` selects the separator between the token's parts."""
        raw = self.raw(tokens)
        is_null = tokens.isNull() | (raw == self.format.null)
        return F.when(~is_null, self.not_null(tokens, raw, data_type, level))

    def not_null(self, tokens: Column, raw: Column, data_type: T.DataType, level: int) -> Column:
        """Convert a token that is not the NULL text. The result is NULL for an invalid token."""
        match data_type:
            case T.ArrayType(elementType=element):
                items = self.items(tokens, level)
                return F.transform(items, lambda item: self.value(item, element, level + 1))
            case T.MapType():
                return self.map(tokens, data_type, level)
            case T.StructType():
                return self.nested_struct(tokens, data_type, level)
            case T.StringType():
                return self.text(tokens)
            case T.CharType(length=length):
                return values.character(self.text(tokens), length, padded=True)
            case T.VarcharType(length=length):
                return values.character(self.text(tokens), length, padded=False)
            case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
                return values.integer(raw, data_type)
            case T.FloatType() | T.DoubleType():
                return values.floating(raw, data_type)
            case T.DecimalType():
                return values.decimal(raw, data_type)
            case T.BooleanType():
                return values.boolean(raw, extended=self.format.extended_booleans)
            case T.BinaryType():
                return values.binary(raw)
            case T.DateType():
                return values.date(raw)
            case T.TimestampType():
                return values.timestamp(raw, self.timestamp_zone())
        raise ValueError(f"columns of type {data_type.simpleString()} are not supported")

    def nested_struct(self, tokens: Column, schema: T.StructType, level: int) -> Column:
        """Convert a token to a struct with the fields of ``schema``."""

        def build(parts: Column) -> Column:
            fields = self.fields(parts, schema, level)
            names = schema.fieldNames()
            return F.struct(*(v.alias(n) for v, n in zip(fields, names, strict=True)))

        return values.let(self.split(tokens, len(schema.fields), level), build)

    def map(self, tokens: Column, data_type: T.MapType, level: int) -> Column:
        """Convert a token to a map. Repeated keys and entries with an invalid key are dropped."""
        if not _can_be_key(data_type.keyType):
            raise ValueError(
                f"maps with keys of type {data_type.keyType.simpleString()} cannot be read as"
                " Hive reads them"
            )

        def entry(item: Column) -> Column:
            parts = F.split(item, self.separator(level + 1), 2)
            return F.struct(
                self.value(F.get(parts, F.lit(0)), data_type.keyType, level + 2).alias("key"),
                self.value(F.get(parts, F.lit(1)), data_type.valueType, level + 2).alias("value"),
            )

        def add(seen: Column, new: Column) -> Column:
            known = new["key"].isNull() | F.exists(seen, lambda old: old["key"] == new["key"])
            return F.when(known, seen).otherwise(F.concat(seen, F.array(new)))

        entry_type = (
            T.StructType()
            .add("key", _plain(data_type.keyType))
            .add("value", _plain(data_type.valueType))
        )
        entries = F.transform(self.items(tokens, level), entry)
        none = F.array().cast(T.ArrayType(entry_type))
        return F.map_from_entries(F.aggregate(entries, none, add))

    def items(self, tokens: Column, level: int) -> Column:
        """Split a token into the elements of an array or map. Empty text has no elements."""
        none = F.array().cast("array<string>")
        return F.when(tokens == "", none).otherwise(F.split(tokens, self.separator(level)))

    def separator(self, level: int) -> str:
        """Return a regular expression that matches the separator of a nesting level."""
        if level >= len(self.format.separators):
            raise ValueError(f"types nested more than {level - 1} levels deep cannot be read")
        separator = self.format.separators[level]
        if self.format.escape is None:
            return _pattern(separator)
        if separator == self.format.escape:
            raise ValueError(f"{separator!r} is both a separator and the escape character")
        return f"(?<!{_ESCAPED}){_pattern(separator)}"

    def raw(self, tokens: Column) -> Column:
        """Return a token as it is in the file, with its escape characters."""
        escape = self.format.escape
        return tokens if escape is None else F.replace(tokens, F.lit(_ESCAPED), F.lit(escape))

    def text(self, tokens: Column) -> Column:
        """Return a token as UTF-8 text without escapes. Escaped ``n`` and ``r`` are line breaks."""
        if self.format.escape is not None:
            for letter, meaning in (("n", "\n"), ("r", "\r"), ("", "")):
                tokens = F.replace(tokens, F.lit(_ESCAPED + letter), F.lit(meaning))
        return values.utf8(tokens)

    def timestamp_zone(self) -> str:
        """Return the time zone in which timestamps were written.

        Raises:
            ValueError: if :attr:`time_zone` is None, or if timestamps have a custom format.
        """
        if self.format.timestamp_formats is not None:
            raise ValueError("timestamps with custom formats (timestamp.formats) are not supported")
        if self.time_zone is None:
            raise ValueError("the time zone of timestamps is unknown")
        return self.time_zone


def _separators(properties: Mapping[str, str]) -> list[int]:
    """Return the separator bytes, one for each nesting level that Hive supports for the table."""
    field = properties.get("field.delim", properties.get("serialization.format"))
    named = [
        _byte(field, 1),
        # Hive 2 reads the misspelled property "colelction.delim", and not "collection.delim".
        _byte(properties.get("colelction.delim"), 2),
        _byte(properties.get("mapkey.delim"), 3),
    ]
    every = [*named, *range(4, 9), 11, *range(14, 27), *range(28, 32), *range(0x80, 0x100)]
    if _is_true(properties, "hive.serialization.extend.additional.nesting.levels"):
        return every
    if _is_true(properties, "hive.serialization.extend.nesting.levels"):
        return every[:24]
    return every[:8]


def _byte(text: str | None, default: int) -> int:
    """Return the byte for a separator property, which is a number (-128 to 127) or a character."""
    if not text:
        return default
    # Java reads the decimal digits of every script, if each is a single UTF-16 code unit.
    if re.fullmatch(r"[+-]?\d+", text) and max(text) <= "\uffff" and -128 <= int(text) <= 127:
        return int(text) & 0xFF
    return text.encode("utf-16-be", "surrogatepass")[1]


def _is_true(properties: Mapping[str, str], key: str) -> bool:
    return properties.get(key, "").lower() == "true"


def _can_be_key(data_type: T.DataType) -> bool:
    # NaN and negative zero are compared differently in Java and in Spark, so floats cannot be keys.
    return not isinstance(
        data_type, T.ArrayType | T.MapType | T.StructType | T.FloatType | T.DoubleType
    )


def _pattern(char: str) -> str:
    """Return a regex for a character, in a form that Java's ``split`` handles as plain text."""
    return f"\\{char}" if char in _REGEX_SPECIAL else char


def _plain(data_type: T.DataType) -> T.DataType:
    """Return the type of parsed values: the declared type with CHAR and VARCHAR as STRING."""
    match data_type:
        case T.CharType() | T.VarcharType():
            return T.StringType()
        case T.ArrayType(elementType=element):
            return T.ArrayType(_plain(element))
        case T.MapType(keyType=key, valueType=value):
            return T.MapType(_plain(key), _plain(value))
        case T.StructType(fields=fields):
            return T.StructType([T.StructField(f.name, _plain(f.dataType)) for f in fields])
    return data_type


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
        serde_properties: SerDe properties, as for
            :func:`~splitlib.spark.formats.hive_text.hive_text_columns`.

    Returns:
        One column per field of ``schema``, with its name and metadata.

    Raises:
        ValueError: if the table cannot be read exactly as Hive reads it.
    """
    for field in schema.fields:
        if not isinstance(field.dataType, StringType) or is_char_or_varchar(field):
            raise ValueError(
                f"OpenCSVSerde supports only STRING columns, not {field.name!r} of type "
                f"{field.dataType.simpleString()}"
            )
    if serde_properties.get("textinputformat.record.delimiter"):
        raise ValueError("custom record delimiters are not supported")
    separator = _char(serde_properties, "separatorChar", ",")
    quote = _char(serde_properties, "quoteChar", '"')
    escape = _char(serde_properties, "escapeChar", '"')
    # If the escape is `"`, the SerDe does not pass it to opencsv, which then uses its default, the
    # backslash.
    escape = "\\" if escape == '"' else escape
    if len({separator, quote, escape}) < 3 or separator == "\0":
        raise ValueError("separator, quote and escape of OpenCSVSerde must be different characters")
    # translate() converts the line to a Java string, which replaces bytes that are not UTF-8.
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
    """Return the fields of a CSV line as an array of strings, or NULL for an empty line."""
    s, q, e = (re.escape(c) for c in (separator, quote, escape))
    field = f"(?:{q}[^{q}{e}]*+{q}|[^{s}{q}{e}]*+)"
    whole = F.transform(
        F.split(line, rf"{s}(?=(?:[^{q}]*+{q}[^{q}]*+{q})*+[^{q}]*+\z)"),
        lambda part: F.when(
            part.startswith(quote), part.substr(F.lit(2), F.length(part) - 2)
        ).otherwise(part),
    )
    return (
        F.when(line == "", None)
        .when(~line.contains(quote) & ~line.contains(escape), F.split(line, s))
        .when(line.rlike(rf"\A{field}(?:{s}{field})*+\z"), whole)
        .otherwise(let(F.split(line, ""), lambda chars: _parse(chars, separator, quote, escape)))
    )


def _parse(chars: Column, separator: str, quote: str, escape: str) -> Column:
    """Split the characters of a line into fields, as opencsv's ``CSVParser.parseLine`` does."""
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
    # In Java, a character outside the basic multilingual plane takes two positions.
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
        .when(char == quote, on_quote.otherwise(changed(text=kept, quoted=~quoted, inside=~inside)))
        .when(
            (char == separator) & ~quoted,
            changed(fields=next_field, text=F.lit(""), inside=F.lit(False)),
        )
        .otherwise(changed(text=F.concat(text, char), inside=F.lit(True)))
    )


def _state(parts: Mapping[str, Column]) -> Column:
    return F.struct(*(part.alias(name) for name, part in parts.items())).cast(_STATE)
