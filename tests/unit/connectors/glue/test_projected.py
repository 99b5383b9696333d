"""Partitions that Athena's partition projection computes."""

from __future__ import annotations

import itertools
from datetime import date, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import splitlib
from splitlib import DynamicFilteringData
from splitlib.filtering.domains import RangeDomain, Ranges
from splitlib.filtering.predicate import Predicate
from splitlib.hive.projection import DateProjected, IntegerProjected, Projection
from splitlib_glue import projected
from splitlib_glue.projected import list_projected
from tests.unit.connectors.glue.conftest import add_partition, add_table

NOW = datetime(2024, 3, 1, 12)
DAYS = {
    "projection.day.type": "date",
    "projection.day.format": "yyyy/MM/dd",
    "projection.day.range": "1990/01/01,2020/12/31",
}
ENABLED = {"projection.enabled": "true"}


def in_directory(root, **properties):
    """Return the properties of a table by day and shop, whose files are below ``root``."""
    return {
        **ENABLED,
        **DAYS,
        "projection.shop.type": "integer",
        "projection.shop.range": "1,999",
        "projection.shop.digits": "4",
        "storage.location.template": f"file://{root}/${{shop}}/of/${{day}}/",
        **properties,
    }


def opened(server, root, keys=None, options=None, **properties):
    parameters = in_directory(root, **properties)
    add_table(server, keys or {"day": "string", "shop": "int"}, Parameters=parameters)
    return splitlib.load_table("db.t", "glue", **server.options, **(options or {}))


def write(root, place, rows=1):
    path = root / place / "x.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"v": list(range(rows))}), path)
    return str(path)


def paths(table, *filters):
    enumerator = splitlib.DynamicFileEnumerator(table)
    for data in filters:
        enumerator.set_dynamic_filtering_data(data)
    found = [split.path for split in enumerator.enumerate_splits()]
    return found, enumerator.metrics


def test_ten_million_possible_partitions_take_no_request(server, tmp_path, monkeypatch):
    computed = []
    for kind in (DateProjected, IntegerProjected):

        def counted(self, number, text=kind.text):
            computed.append(number)
            return text(self, number)

        monkeypatch.setattr(kind, "text", counted)
    days = [f"20{year:02}/0{month}/15" for year in range(10) for month in (1, 4, 7)]
    keys = DynamicFilteringData.from_values({"day": days, "shop": [*range(1, 31)]})
    there = write(tmp_path, f"0001/of/{days[0]}")
    write(tmp_path, f"0002/of/{days[0]}")
    with opened(server, tmp_path) as table:
        found, metrics = paths(table, keys)
    keys = pa.schema([("day", pa.string()), ("shop", pa.int32())])
    columns = Projection(in_directory(tmp_path), keys, None).values(NOW)
    assert columns[0].count * columns[1].count > 10_000_000
    assert found == [there]
    assert metrics.partitions_matched == 30
    assert metrics.metastore_requests == 0
    assert server.names() == ["GetTable"]
    assert len(computed) < 300


def test_one_key_of_ten_million_values(server, tmp_path):
    template = f"file://{tmp_path}/${{n}}"
    parameters = {
        **ENABLED,
        "projection.n.type": "integer",
        "projection.n.range": "0,9999999",
        "storage.location.template": template,
    }
    add_table(server, {"n": "bigint"}, Parameters=parameters)
    there = write(tmp_path, "7654321")
    with splitlib.load_table("db.t", "glue", **server.options) as table:
        keys = DynamicFilteringData.from_values({"n": [7654321, 12345678, -1]})
        assert paths(table, keys)[0] == [there]
        near = DynamicFilteringData.from_range({"n": (7654300, 7654350)})
        found, metrics = paths(table, near)
        assert (found, metrics.partitions_total) == ([there], 51)
    assert server.names() == ["GetTable"]


def test_several_ranges_of_a_key():
    """Values between the first and the last range are compared, not lost."""
    schema = pa.schema([("n", pa.int64())])
    properties = {"projection.n.type": "integer", "projection.n.range": "0,9999999"}
    ranges = Ranges(pa.array([5, 900]), pa.array([6, 901]), "[)")
    domain = RangeDomain(schema.field("n"), ranges)
    keys = DynamicFilteringData(schema, [domain], exceeds_threshold=False)
    projection = Projection(properties, schema, "s3://b/t")
    (batch,) = list_projected(projection, schema, Predicate(schema, [keys]), NOW)
    assert batch[0]["n"].to_pylist() == ["5", "900"]


def test_partition_without_a_directory_has_no_files(server, tmp_path):
    there = write(tmp_path, "0007/of/2020/12/31")
    with opened(server, tmp_path, **{"projection.day.range": "2020/12/30,2020/12/31"}) as table:
        found, metrics = paths(table)
    assert found == [there]
    assert metrics.partitions_matched == 2 * 999
    assert metrics.metastore_requests == 0


def test_files_in_subdirectories_belong_to_a_projected_partition(server, tmp_path):
    there = [write(tmp_path, f"0007/of/2020/12/31{below}") for below in ("", "/10/a", "/11")]
    write(tmp_path, "0007/of/2020/12/31/_temporary/x")
    day = DynamicFilteringData.from_values({"day": ["2020/12/31"], "shop": [7]})
    with opened(server, tmp_path) as table:
        assert sorted(paths(table, day)[0]) == sorted(there)
    text = {"SerializationLibrary": "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"}
    stored = server.tables[server.catalog, "db", "t"]["StorageDescriptor"]
    stored |= {"SerdeInfo": text, "InputFormat": "org.apache.hadoop.mapred.TextInputFormat"}
    with splitlib.load_table("db.t", "glue", **server.options) as table:
        assert table.metadata.read_format.name == "hive-text"
        assert len(paths(table, day)[0]) == 3


def test_registered_partitions_are_read_on_demand(server, tmp_path):
    there = write(tmp_path, "elsewhere")
    options = {"partition_projection": False}
    with opened(server, tmp_path, options=options) as table:
        add_partition(server, "d", "1", location=(tmp_path / "elsewhere").as_uri())
        assert paths(table)[0] == [there]


def test_projection_of_a_table_without_keys_is_ignored(server, tmp_path):
    add_table(server, {}, Parameters={**ENABLED, "projection.day.type": "none"})
    splitlib.load_table("db.t", "glue", **server.options).close()


def test_invalid_projection_is_found_when_the_table_is_opened(server, tmp_path):
    with pytest.raises(splitlib.UnsupportedTable, match="key 'shop' has a range"):
        opened(server, tmp_path, **{"projection.shop.range": "9,1"})


def test_locations_that_are_not_allowed(server, tmp_path):
    write(tmp_path, "0007/of/2020/12/31")
    properties = in_directory(tmp_path, **{"projection.day.range": "2020/12/31,2020/12/31"})
    add_table(server, {"day": "string", "shop": "int"}, Parameters=properties)
    config = splitlib.SplitConfig(allowed_locations=("/nowhere",))
    refused = pytest.raises(splitlib.LocationNotAllowed, match="0001/of/2020/12/31")
    with splitlib.load_table("db.t", "glue", config=config, **server.options) as table, refused:
        paths(table)


def test_injected_keys(server, tmp_path):
    injected = {
        "projection.day.range": "2020/12/22,2020/12/31",
        "projection.shop.type": "injected",
        "storage.location.template": f"file://{tmp_path}/${{shop}}/${{day}}",
    }
    there = write(tmp_path, "x y/2020/12/31")
    keys = {"day": "string", "shop": "string"}
    with opened(server, tmp_path, keys, **injected) as table:
        shops = DynamicFilteringData.from_values({"shop": ["z", "x y", None]})
        found, metrics = paths(table, shops)
        assert found == [there]
        assert metrics.partitions_matched == 2 * 10
        day = DynamicFilteringData.from_values({"day": ["2020/12/31"]})
        with pytest.raises(splitlib.UnsupportedTable, match="'shop' are not known") as caught:
            paths(table, day)
        assert "filter by values of 'shop'" in (caught.value.hint or "")
        assert paths(table, shops, day)[1].partitions_matched == 2


@pytest.mark.parametrize("most_texts", [0, 9])
def test_null_partition_of_an_enum(monkeypatch, most_texts):
    """As in Athena, this text is how Hive writes null."""
    monkeypatch.setattr(projected, "MOST_TEXTS", most_texts)
    schema = pa.schema([("k", pa.string())])
    texts = "a,__HIVE_DEFAULT_PARTITION__"
    properties = {"projection.k.type": "enum", "projection.k.values": texts}
    projection = Projection(properties, schema, "s3://b/t")
    null = pa.table({"k": pa.array([None], pa.string())})
    keys = DynamicFilteringData.from_arrow(null, fields=["k"])
    ((values, locations),) = list_projected(projection, schema, Predicate(schema, [keys]), NOW)
    assert values["k"].to_pylist() == [None]
    assert locations.to_pylist() == ["s3://b/t/k=__HIVE_DEFAULT_PARTITION__"]


def test_integers_of_the_whole_range():
    schema = pa.schema([("n", pa.int64())])
    ends = f"{-(2**63)},{2**63 - 1}"
    properties = {"projection.n.type": "integer", "projection.n.range": ends}
    numbers = [-(2**63), 0, 2**63 - 1]
    keys = DynamicFilteringData.from_values({"n": numbers})
    projection = Projection(properties, schema, "s3://b/t")
    ((values, _),) = list_projected(projection, schema, Predicate(schema, [keys]), NOW)
    assert values["n"].to_pylist() == [str(number) for number in numbers]


def test_too_many_combinations(server, tmp_path):
    wide = {"projection.shop.range": "0,9223372036854775807"}
    with opened(server, tmp_path, {"day": "string", "shop": "bigint"}, **wide) as table:
        with pytest.raises(splitlib.TooManyPartitions, match="partitions may match the filters"):
            paths(table)
        day = DynamicFilteringData.from_values({"day": ["2020/12/31"], "shop": [2**62]})
        assert paths(table, day)[1].partitions_matched == 1


SCHEMA = pa.schema([("e", pa.string()), ("n", pa.int32()), ("d", pa.date32())])
PROPERTIES = {
    "projection.e.type": "enum",
    "projection.e.values": "b,a,",
    "projection.n.type": "integer",
    "projection.n.range": "-3,12",
    "projection.n.interval": "3",
    "projection.n.digits": "2",
    "projection.d.type": "date",
    "projection.d.format": "ddMMyyyy",
    "projection.d.range": "27022024,NOW+1DAYS",
    "projection.d.interval": "2",
    "projection.d.interval.unit": "DAYS",
}
E_VALUES, N_VALUES = ["b", "a", ""], [-3, 0, 3, 6, 9, 12]
D_VALUES = [date(2024, 2, 27), date(2024, 2, 29), date(2024, 3, 2)]


def every_partition():
    """Enumerate the partitions of ``PROPERTIES`` naively, with their locations."""
    for e, n, d in itertools.product(E_VALUES, N_VALUES, D_VALUES):
        text = f"-{-n}" if n < 0 else f"0{n}" if n < 10 else f"{n}"
        yield (e, text, str(d)), f"s3://b/t/e={e}/n={text}/d={d.strftime('%d%m%Y')}"


@st.composite
def filters(draw):
    some = {
        "e": st.sampled_from([*E_VALUES, "c", None]),
        "n": st.sampled_from([*N_VALUES, -4, 1, 13, 2**31 - 1, None]),
        "d": st.sampled_from([*D_VALUES, D_VALUES[0] + timedelta(days=1), date(1, 1, 1), None]),
    }
    if draw(st.booleans()):
        names = draw(st.lists(st.sampled_from("end"), min_size=1, unique=True))
        rows = draw(st.lists(st.tuples(*(some[name] for name in names)), max_size=8))
        columns = {
            name: pa.array([row[i] for row in rows], SCHEMA.field(name).type)
            for i, name in enumerate(names)
        }
        return DynamicFilteringData.from_arrow(pa.table(columns), fields=names)
    name = draw(st.sampled_from("end"))
    ends = [draw(some[name]) for _ in range(2)]
    known = sorted(end for end in ends if end is not None)
    low, high = known if len(known) == 2 else ends
    kind = SCHEMA.field(name).type
    return DynamicFilteringData.from_range({name: (pa.scalar(low, kind), pa.scalar(high, kind))})


@given(st.lists(filters(), max_size=3), st.sampled_from([1, 7, 1000]), st.sampled_from([0, 2, 99]))
def test_listed_partitions_are_those_of_a_naive_enumeration(given_filters, block, most_texts):
    predicate = Predicate(SCHEMA, given_filters)
    whole = list(every_partition())
    columns = [pa.array(column) for column in zip(*(values for values, _ in whole), strict=True)]
    kept = predicate.match(pa.RecordBatch.from_arrays(columns, names=SCHEMA.names)).to_pylist()
    expected = [one for one, is_kept in zip(whole, kept, strict=True) if is_kept]
    projection = Projection(PROPERTIES, SCHEMA, "s3://b/t")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(projected, "BLOCK", block)
        patched.setattr(projected, "MOST_TEXTS", most_texts)
        batches = list(list_projected(projection, SCHEMA, predicate, NOW))
    found = [
        (tuple(row.values()), location)
        for values, locations in batches
        for row, location in zip(values.to_pylist(), locations.to_pylist(), strict=True)
    ]
    assert found == expected
