"""A metastore that requires Kerberos: ``make kerberos``, which needs MIT Kerberos' KDC."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import splitlib
from splitlib_hive import HiveConnector
from tests.interop.metastores.server import pyspark_jars, running

REALM = "EXAMPLE.COM"
SERVER = f"hive/localhost@{REALM}"


@contextmanager
def kdc(directory: Path) -> Iterator[dict[str, str]]:
    """Run a KDC with a server and a user, who has a ticket; yield the environment for clients."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (directory / "krb5.conf").write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n rdns = false\n"
        f" dns_canonicalize_hostname = false\n"
        f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
    )
    (directory / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {directory}/principal\n"
        f"  key_stash_file = {directory}/stash\n  acl_file = {directory}/acl\n }}\n"
    )
    own = {
        "KRB5_CONFIG": f"{directory}/krb5.conf",
        "KRB5_KDC_PROFILE": f"{directory}/kdc.conf",
        "KRB5CCNAME": f"{directory}/ticket",
    }
    environment = {**os.environ, **own, "PATH": f"{os.environ['PATH']}:/usr/sbin"}

    def run(*command: str, given: str = "") -> None:
        program = shutil.which(command[0], path=environment["PATH"])
        if program is None:
            pytest.fail(f"{command[0]} is missing: install krb5-kdc, krb5-admin-server, krb5-user")
        subprocess.run([program, *command[1:]], env=environment, input=given, text=True, check=True)

    run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
    run("kadmin.local", "-q", f"addprinc -randkey {SERVER}")
    run("kadmin.local", "-q", f"ktadd -k {directory}/keytab {SERVER}")
    run("kadmin.local", "-q", "addprinc -pw secret user")
    run("krb5kdc", "-P", str(directory / "pid"))  # returns when it listens
    try:
        run("kinit", "user", given="secret\n")
        yield own
    finally:
        os.kill(int((directory / "pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("protection", ["authentication", "integrity", "privacy"])
def test_kerberos(protection: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gssapi", reason="make kerberos installs it")
    with kdc(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        settings = {
            "hive.metastore.sasl.enabled": "true",
            "hive.metastore.kerberos.principal": SERVER,
            "hive.metastore.kerberos.keytab.file": f"{tmp_path}/keytab",
        }
        hadoop = {
            "hadoop.security.authentication": "kerberos",
            "hadoop.rpc.protection": protection,
            "java.security.krb5.conf": environment["KRB5_CONFIG"],
        }
        place = tmp_path / "metastore"
        place.mkdir()
        with running(pyspark_jars(), place, settings, hadoop) as port:
            uri = f"thrift://localhost:{port}"
            own: dict[str, Any] = {"uri": uri, "kerberos_principal": f"hive/_HOST@{REALM}"}
            assert list(HiveConnector.table_names("default", own)) == []
            with pytest.raises(splitlib.TableNotFound):
                splitlib.load_table("default.t", connector="hive", **own)
            with pytest.raises(splitlib.SourceUnavailable) as without:
                list(HiveConnector.table_names(None, {"uri": uri}))
            assert "Kerberos" in str(without.value.hint)
            with pytest.raises(splitlib.AccessDenied, match="not found in Kerberos database"):
                list(HiveConnector.table_names(None, {**own, "kerberos_principal": "x/y@" + REALM}))
            monkeypatch.setenv("KRB5CCNAME", f"{tmp_path}/no-ticket")
            with pytest.raises(splitlib.AccessDenied, match="No Kerberos credentials") as expired:
                list(HiveConnector.table_names(None, own))
            assert "kinit" in str(expired.value.hint)
