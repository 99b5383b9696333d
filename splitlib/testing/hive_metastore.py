"""Run a real Hive metastore from the jars that PySpark includes.

A small JVM, controlled through py4j, opens Hive's metastore handler on an embedded Derby database.
It also starts a Thrift server, configured as in ``HiveMetaStore.main``. The server listens only on
the loopback interface. By default it uses a free port.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from splitlib.testing.bulk_partitions import bulk_add_partitions

_HOST = "127.0.0.1"
_DERBY_URL = "jdbc:derby:db"  # The path is relative to derby.system.home.
_STOP_TIMEOUT_SECONDS = 10
_LOG_TAIL_BYTES = 8_000


class HiveMetastore:
    """A Hive metastore in its own process, which runs during the ``with`` block.

    All files are in `directory`: the Derby database, the warehouse and the log. Spark connects
    with `spark_conf`, other Thrift clients with `uri`. The metastore ends with the Python process
    that started it, even if that process is killed.

    Args:
        directory: Directory for database and warehouse. It is not removed, so a later metastore
            with the same directory has the same tables. None means a temporary directory, which
            `stop` removes.
        port: Port to listen on. 0 means a free port, which stays the same if the metastore is
            started again.
        start_timeout_seconds: Maximum time for `start`, in seconds.
        heap_megabytes: Maximum heap of the JVM, in megabytes. 512 is enough for a million
            partitions, unless a client fetches the details of all partitions in one call.
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        port: int = 0,
        start_timeout_seconds: float = 60,
        heap_megabytes: int = 512,
    ) -> None:
        self._temporary = directory is None
        self.directory = Path(
            tempfile.mkdtemp(prefix="splitlib-metastore-") if directory is None else directory
        ).absolute()
        self.warehouse = self.directory / "warehouse"
        self._port = port
        self._start_timeout_seconds = start_timeout_seconds
        self._heap_megabytes = heap_megabytes
        self._process: subprocess.Popen[bytes] | None = None
        self._gateway: Any = None
        self._server: Any = None

    def __enter__(self) -> HiveMetastore:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    @property
    def uri(self) -> str:
        """URI of the metastore, ``thrift://127.0.0.1:PORT``. Call `start` first."""
        return f"thrift://{_HOST}:{self._port}"

    def spark_conf(self) -> dict[str, str]:
        """Return Spark settings that make this metastore the session's catalog."""
        return {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": self.uri,
            "spark.sql.warehouse.dir": str(self.warehouse),
        }

    def log(self) -> str:
        """Return the last 8,000 bytes of the metastore's log."""
        try:
            with self._log_path.open("rb") as log:
                log.seek(max(0, self._log_path.stat().st_size - _LOG_TAIL_BYTES))
                return log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def start(self) -> None:
        """Start the metastore and wait until it accepts connections.

        Raises:
            RuntimeError: if Java or PySpark is missing, or the metastore does not start. The
                message ends with its log.
        """
        if self._process is not None:
            raise RuntimeError(f"the metastore {self.uri} is running already")
        java, jars = _find_java(), _find_pyspark_jars()
        from py4j.protocol import Py4JError

        atexit.register(self.stop)
        watchdog: threading.Timer | None = None
        try:
            self.warehouse.mkdir(parents=True, exist_ok=True)
            with self._log_path.open("wb") as log:
                self._process = process = self._launch(java, jars, log)
            watchdog = threading.Timer(self._start_timeout_seconds, process.kill)
            watchdog.start()
            self._gateway = _connect(process)
            self._serve()
        except (OSError, Py4JError) as error:
            # Build the message before the JVM stops, because str(error) requests it from the JVM.
            message = (
                f"the Hive metastore in {self.directory} did not start. The directory must be "
                f"writable and used by no other metastore, the port ({self._port or 'any'}) free, "
                f"and start_timeout_seconds={self._start_timeout_seconds:g} long enough.\n"
                f"{error}\n{self.log()}"
            )
            self.stop()
            raise RuntimeError(message) from None
        finally:
            if watchdog is not None:
                watchdog.cancel()

    def stop(self) -> None:
        """Stop the metastore, if it is running, and remove its directory if it is temporary."""
        if self._process is not None:
            self._close_database()
            self._process.terminate()
            self._forget_process()
        atexit.unregister(self.stop)
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self) -> None:
        """Kill the process, to simulate a crash. `start` restarts it."""
        if self._process is not None:
            self._process.kill()
            self._forget_process()

    def bulk_add_partitions(
        self,
        database: str,
        table: str,
        values: Sequence[tuple[str | None, ...]],
        locations: Sequence[str] | None = None,
    ) -> None:
        """Add thousands of partitions per second to an existing table, without Thrift.

        The result is the same as with Hive's ``add_partitions``. All partitions are added in one
        transaction. Directories are neither created nor checked.

        Args:
            database: Name of the database.
            table: Name of the table.
            values: One tuple per partition, with one string per partition key. None and the empty
                string mean Hive's default partition.
            locations: One location per partition; by default subdirectories of the table's
                location with Hive's partition names.

        Raises:
            RuntimeError: if the metastore is not running.
            LookupError: if the table does not exist.
            ValueError: if the table is not partitioned, a tuple does not have one string per key,
                or a partition already exists. In these cases, no partition is added.
        """
        if self._gateway is None:
            raise RuntimeError("the metastore is not running, call start() first")
        connection = self._gateway.jvm.java.sql.DriverManager.getConnection(_DERBY_URL)
        try:
            bulk_add_partitions(
                connection, self.directory / "staged.csv", database, table, values, locations
            )
        finally:
            connection.close()

    @property
    def _log_path(self) -> Path:
        return self.directory / "metastore.log"

    def _launch(self, java: str, jars: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
        properties = {
            "derby.system.home": str(self.directory),
            # Skip fsync: only a crash of the operating system, not of the process, loses data.
            "derby.system.durability": "test",
            "javax.jdo.option.ConnectionURL": f"{_DERBY_URL};create=true",
            "datanucleus.schema.autoCreateAll": "true",
            # Do not pause before retries, because no other process holds locks on the database.
            "hive.hmshandler.retry.interval": "0",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": str(self.warehouse),
            "org.apache.logging.log4j.level": "WARN",
        }
        return subprocess.Popen(
            [
                java,
                f"-Xmx{self._heap_megabytes}m",
                # These two options reduce the start time of this short-lived process by 40%.
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                *(f"-D{key}={value}" for key, value in properties.items()),
                "-classpath",
                f"{jars}/*",
                "py4j.GatewayServer",
                # The JVM exits when its stdin closes, which happens when this process ends.
                "--die-on-broken-pipe",
                "--enable-auth",
                "0",
            ],
            cwd=self.directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # Ctrl-C must not stop the metastore with the user's program.
        )

    def _serve(self) -> None:
        """Start a Thrift server for the metastore, as ``HiveMetaStore.startMetaStore`` does."""
        jvm = self._gateway.jvm
        hive, thrift = jvm.org.apache.hadoop.hive, jvm.org.apache.thrift
        handler = hive.metastore.HiveMetaStore.newRetryingHMSHandler(
            "splitlib", hive.conf.HiveConf(), False
        )
        socket = thrift.transport.TServerSocket(jvm.java.net.InetSocketAddress(_HOST, self._port))
        self._port = socket.getServerSocket().getLocalPort()
        self._server = thrift.server.TThreadPoolServer(
            thrift.server.TThreadPoolServer.Args(socket)
            .processor(hive.metastore.TUGIBasedProcessor(handler))
            .transportFactory(hive.thrift.TUGIContainingTransport.Factory())
            .protocolFactory(thrift.protocol.TBinaryProtocol.Factory())
            .stopTimeoutVal(0)  # Do not wait for clients that stay connected.
        )
        # Serve in a Java thread, because an open py4j call would log an error when the process is
        # killed.
        runnable = jvm.java.beans.EventHandler.create(
            jvm.java.lang.Class.forName("java.lang.Runnable"), self._server, "serve"
        )
        jvm.java.lang.Thread(runnable, self.uri).start()

    def _close_database(self) -> None:
        """Stop the server and shut Derby down, so that the next start needs no crash recovery."""
        from py4j.protocol import Py4JError

        if self._server is None:
            return
        try:
            self._server.stop()
            self._gateway.jvm.java.sql.DriverManager.getConnection(f"{_DERBY_URL};shutdown=true")
        except Py4JError:
            pass  # Derby always raises an exception at shutdown, and the JVM may have crashed.

    def _forget_process(self) -> None:
        assert self._process is not None
        try:
            self._process.wait(_STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        if self._gateway is not None:
            self._gateway.close()
        self._process = self._gateway = self._server = None


def _connect(process: subprocess.Popen[bytes]) -> Any:
    """Read the port and token that py4j's server prints, and return a gateway to its JVM."""
    from py4j.java_gateway import GatewayParameters, JavaGateway

    assert process.stdout is not None
    port, token = process.stdout.readline(), process.stdout.readline()
    if not token:
        raise ChildProcessError(f"the JVM ended with exit code {process.wait()}")
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(
            port=int(port),
            auth_token=token.decode().strip(),
            # If enabled, Python's garbage collector calls the JVM, even after the JVM has ended.
            enable_memory_management=False,
        )
    )
    # Python does not read the JVM's stdout any further, so redirect Hive's output to the log.
    gateway.jvm.java.lang.System.setOut(gateway.jvm.java.lang.System.err)
    return gateway


def _find_java() -> str:
    java_home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(java_home, "bin") if java_home else None)
    if java is None:
        where = f"in JAVA_HOME={java_home}" if java_home else "on PATH, and JAVA_HOME is not set"
        raise RuntimeError(f"there is no java {where}: install a Java 17 runtime")
    return java


def _find_pyspark_jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(root) / "jars").is_dir():
            return Path(root) / "jars"
    raise RuntimeError(
        "the Hive metastore runs from PySpark's jars: pip install 'splitlib[spark]' "
        "(pyspark-client does not include jars)"
    )
