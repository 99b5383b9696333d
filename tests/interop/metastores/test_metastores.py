"""Metastores of Hive 2.3 with TLS, and of Hive 4 with catalogs, also in HTTP mode."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from cryptography.hazmat.primitives.serialization import load_pem_private_key as load_key
from cryptography.x509 import load_pem_x509_certificate as load_certificate
from hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.THttpClient import THttpClient
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

import splitlib
from splitlib_hive import HiveConnector
from tests.interop.metastores.server import pyspark_jars, running

JARS = "INTEROP_METASTORES_JARS"
"""Environment variable with the directory of the jars, which ``make interop`` downloads."""
CATALOGS = ("hive", "lake")
PARQUET = "org.apache.hadoop.hive.ql.io.parquet"


def test_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    own = authority.issue_cert("localhost")
    keystore = pkcs12.serialize_key_and_certificates(
        b"server",
        load_key(own.private_key_pem.bytes(), None),  # type: ignore[arg-type] # an RSA or EC key
        load_certificate(own.cert_chain_pems[0].bytes()),
        None,
        BestAvailableEncryption(b"changeit"),
    )
    (tmp_path / "server.p12").write_bytes(keystore)
    settings = {
        "hive.metastore.use.SSL": "true",
        "hive.metastore.keystore.path": str(tmp_path / "server.p12"),
        "hive.metastore.keystore.password": "changeit",
    }
    with running(pyspark_jars(), tmp_path, settings) as port:
        uri = f"thrift://localhost:{port}"
        trusted: dict[str, Any] = {"uri": uri, "tls_ca": str(tmp_path / "ca.pem")}
        assert list(HiveConnector.table_names("default", trusted)) == []
        with pytest.raises(splitlib.TableNotFound):
            splitlib.load_table("default.t", connector="hive", **trusted)
        with pytest.raises(splitlib.SourceError, match="not trusted"):
            splitlib.load_table("default.t", connector="hive", uri=uri, tls=True)


@pytest.fixture(scope="module", params=["thrift", "http"])
def hive4(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Start a metastore of Hive 4, fill two catalogs, and yield its address."""
    jars = os.environ.get(JARS)
    if not jars:
        pytest.fail(f"{JARS} is not set: run these tests by `make interop`")
    directory = tmp_path_factory.mktemp("hive4")
    settings = {"metastore.server.thrift.transport.mode": "http"} if request.param == "http" else {}
    with running(Path(jars), directory, settings) as port:
        uri = f"{request.param}://localhost:{port}"
        fill(uri, directory / "data")
        yield uri


def fill(uri: str, root: Path) -> None:
    """Create table ``d.t`` in each catalog. The values differ by 1,000."""
    scheme, _, address = uri.partition("://")
    transport: Any
    if scheme == "http":
        transport = THttpClient(f"{uri}/metastore")
        transport.setCustomHeaders({"x-actor-username": "test"})
    else:
        host, _, port = address.partition(":")
        transport = TBufferedTransport(TSocket(host, int(port)))
    transport.open()
    client = ThriftHiveMetastore.Client(TBinaryProtocol(transport))
    for number, catalog in enumerate(CATALOGS):
        place = root / catalog
        if number:
            own = ttypes.Catalog(name=catalog, locationUri=f"file://{place}")
            client.create_catalog(ttypes.CreateCatalogRequest(own))
        client.create_database(
            ttypes.Database(name="d", locationUri=f"file://{place}/d", catalogName=catalog)
        )
        client.create_table(
            ttypes.Table(
                tableName="t",
                dbName="d",
                catName=catalog,
                tableType="EXTERNAL_TABLE",
                parameters={"EXTERNAL": "TRUE"},
                sd=storage(place / "d" / "t"),
                partitionKeys=[ttypes.FieldSchema("k", "string", None)],
            )
        )
        partitions = []
        for key in "abc":
            directory = place / "d" / "t" / f"k={key}"
            directory.mkdir(parents=True)
            values = pa.array([ord(key) + 1000 * number], pa.int32())
            pq.write_table(pa.table({"v": values}), directory / "f.parquet")
            partitions.append(
                ttypes.Partition(
                    values=[key],
                    dbName="d",
                    tableName="t",
                    catName=catalog,
                    sd=storage(directory),
                    parameters={},
                )
            )
        client.add_partitions_req(
            ttypes.AddPartitionsRequest("d", "t", partitions, ifNotExists=False, catName=catalog)
        )
    transport.close()


def storage(location: Path) -> ttypes.StorageDescriptor:
    return ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema("v", "int", None)],
        location=f"file://{location}",
        inputFormat=f"{PARQUET}.MapredParquetInputFormat",
        outputFormat=f"{PARQUET}.MapredParquetOutputFormat",
        serdeInfo=ttypes.SerDeInfo(serializationLib=f"{PARQUET}.serde.ParquetHiveSerDe"),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


@pytest.mark.parametrize("catalog", [None, *CATALOGS])
def test_catalogs_of_hive_4(hive4: str, catalog: str | None) -> None:
    options: dict[str, Any] = (
        {"uri": hive4} if catalog is None else {"uri": hive4, "catalog": catalog}
    )
    assert list(HiveConnector.table_names(None, options)) == [("d", "t")]
    table = splitlib.load_table("d.t", connector="hive", **options)
    assert str(table.metadata.location).endswith(f"/{catalog or 'hive'}/d/t")
    assert table.partitions()["partition"].to_pylist() == ["k=a", "k=b", "k=c"]
    keys = splitlib.DynamicFilteringData.from_values({"k": ["b", "z"]})
    value = ord("b") + 1000 * (catalog == "lake")
    assert table.to_arrow_dataset(keys).to_table().to_pylist() == [{"v": value, "k": "b"}]
    with pytest.raises(splitlib.TableNotFound):
        splitlib.load_table("d.u", connector="hive", **options)
