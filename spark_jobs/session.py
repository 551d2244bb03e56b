"""The Spark session: all settings that differ from Spark's defaults, with their reasons."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_plus
from uuid import uuid4

from py4j.protocol import Py4JError

from tidegate.contracts.address_secrets import holds_secret
from tidegate.contracts.errors import SettingsError
from tidegate.spark_jobs.class_archive import java_options, keep_archive, written_by
from tidegate.spark_jobs.progress import doing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tidegate.spark_jobs.settings import SinkSettings, SparkSettings

CATALOG = "lake"
"""Name of the Iceberg catalog; PyIceberg opens it under the same name (`tidegate.spark_jobs.sinks.iceberg.catalogs`)."""

_EXTENSIONS: Final = "spark.sql.extensions"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_CHECKPOINTING: Final = "org.apache.spark.sql.execution.streaming.checkpointing"
_ICEBERG: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_SECRET: Final = re.compile(
    r"secret|password|token|credential|jaas|(access|account|private|api|keystore)[._-]?key", re.IGNORECASE
)
"""Names of properties whose values are secrets."""
_LOGIN: Final = ("user", "password")
_LAUNCH_VARIABLES: Final = ("PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS")
"""Variables whose text PySpark and Spark's launcher pass to Java as arguments."""
_SOCKET_NAME_BYTES: Final = len("/.") + 36 + len(".sock")
"""Length of the name that Spark gives to a socket: a slash, a dot, a UUID and `.sock`."""
_SOCKET_PATH_BYTES: Final = 103
"""Maximum path of a Unix socket on macOS; Linux allows 107."""


def build_session(settings: SinkSettings) -> SparkSession:
    """Start the one Spark session of this process.

    Raises SettingsError if jars are missing, also those of the catalog's object store; if a variable would pass a
    secret to Java as an argument; and for Kafka delegation tokens. Raises it too if the executors run another version
    of Tidegate, or do not see the folder of the tables.
    """
    refuse_launch_secrets(os.environ)
    spark = _started(settings, {**_engine(settings), **_of_sink(settings)}, catalog_options(settings))
    try:
        _refuse_delegation_tokens(spark)
        if not is_local(settings):  # workers of this machine run this interpreter
            _require_same_version(spark)
        _require_shared_warehouse(spark, settings)
        _require_file_io(spark, settings)
    except SettingsError:
        spark.stop()
        raise
    return spark


def build_plain_session(settings: SparkSettings) -> SparkSession:
    """Start the one Spark session of this process without jars and catalog, for work without Kafka and tables.

    Raises SettingsError if the executors run another version of Tidegate, or a variable would pass a secret to Java.
    """
    refuse_launch_secrets(os.environ)
    spark = _started(settings, _plain_engine(settings), {})
    try:
        if not is_local(settings):
            _require_same_version(spark)
    except SettingsError:
        spark.stop()
        raise
    return spark


def _started(settings: SparkSettings, engine: dict[str, str], private: dict[str, str]) -> SparkSession:
    """Start Java and a session. `private` are properties that may hold secrets."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - `tidegate --help` must not wait for pyspark
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415 - the same
    from pyspark.sql import SparkSession  # noqa: PLC0415 - the same

    # Otherwise the workers would start the machine's python3, where our packages are not installed.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if is_local(settings):
        # Otherwise Spark looks up the machine's name, and logs a warning about the result.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # PySpark passes the configuration to Java as arguments, which every user of the machine can list. The catalog's
    # properties may be secrets: they follow through the connection to Java, whose token is in a file of this user.
    launch = SparkConf().setMaster(settings.spark_master).setAll(list(engine.items()))
    try:
        SparkContext._ensure_initialized(conf=launch)  # noqa: SLF001 - no public call starts Java without a context
    except PySparkRuntimeError as error:
        raise SettingsError(
            f"Java ended when it was started ({error.getCondition()}); its message is above. Look at JAVA_HOME, the variables "
            "with options of Java, such as JDK_JAVA_OPTIONS, and the free memory: tidegate doctor"
        ) from error
    jvm = SparkContext._jvm  # noqa: SLF001 - only the Java process knows the folder of sockets
    assert jvm is not None  # noqa: S101 - narrows for the type checker
    sockets = worker_sockets(settings.spark_master, jvm.System.getProperty("java.io.tmpdir"))
    builder = SparkSession.builder.appName("tidegate").master(settings.spark_master)
    for key, value in {**engine, **sockets, **private}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def stop_session(spark: SparkSession, settings: SinkSettings) -> None:
    """Stop the session. If a class archive is to be written, let Java write it."""
    from pyspark import SparkContext  # noqa: PLC0415 - as above

    gateway = SparkContext._gateway  # noqa: SLF001 - the process of Java has no Python API
    # A Java process that has ended already needs no stop, and raises these errors.
    with suppress(Py4JError, OSError):
        spark.stop()
    if settings.write_class_archive and gateway is not None:
        keep_archive(settings, partial(written_by, gateway))


def active_session(settings: SinkSettings) -> SparkSession:
    """Return the session of this process, or start one; it ends with the process."""
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415 - as above
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    try:
        return SparkSession.active()  # also if another thread has started it
    except PySparkRuntimeError:
        doing("starting Spark")
        return build_session(settings)


def worker_sockets(master: str, temporary_folder: str) -> dict[str, str]:
    """Return the setting that connects Java and Python workers by Unix sockets, or by TCP if paths are too long.

    With Unix sockets a task takes a third less time, because over TCP a small message waits for the acknowledgement
    of the previous one. Only this user can open the sockets. Spark creates them in Java's temporary folder. On YARN
    that is a folder of the container, whose path exceeds the limit for sockets.
    """
    is_short = len(temporary_folder.encode()) + _SOCKET_NAME_BYTES <= _SOCKET_PATH_BYTES
    return {
        "spark.python.unix.domain.socket.enabled": str(is_short and not master.startswith("yarn")).lower()
    }


def refuse_launch_secrets(environment: Mapping[str, str]) -> None:
    """Raise SettingsError for a secret in a variable that Spark turns into arguments of its Java process.

    The message names the variable and the property, and never the value.
    """
    for variable in _LAUNCH_VARIABLES:
        for word in environment.get(variable, "").replace("'", " ").replace('"', " ").split():
            name, separator, value = word.partition("=")
            is_secret = bool(separator and value and _SECRET.search(name)) or holds_secret(word)
            if is_secret:
                raise SettingsError(
                    f"{variable}: {name if separator else 'an address'} holds a secret, which every user of this machine can "
                    "read in the list of processes: put it into TIDEGATE_CATALOG_PROPERTIES if it is the catalog's or its "
                    "store's, or else into spark-defaults.conf, of mode 0600, in the folder that SPARK_CONF_DIR names"
                )


def _engine(settings: SinkSettings) -> dict[str, str]:
    jars = [str(jar) for jar in (*_jars(settings.spark_jars), *_extra_jars(settings.spark_extra_jars))]
    # A local Spark would copy `spark.jars` at each start, and load them in a way that class archives do not cover.
    local = {"spark.driver.extraClassPath": os.pathsep.join(jars)}
    plain = _plain_engine(settings)
    options = " ".join((plain[_JAVA_OPTIONS], *java_options(settings)))
    return {
        **plain,
        **(local if is_local(settings) else {"spark.jars": ",".join(jars)}),
        _JAVA_OPTIONS: options,
    }


def _plain_engine(settings: SparkSettings) -> dict[str, str]:
    # A local session only talks to itself; its ports must not be reachable from outside.
    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {
        **(local if is_local(settings) else _cluster(settings)),
        "spark.driver.memory": settings.spark_driver_memory,
        # Spark's own regular expression over a long Python traceback recurses deeper than the default stack.
        _JAVA_OPTIONS: "-Xss8m",
        "spark.python.daemon.module": "tidegate.spark_jobs.worker.daemon",
        # Workers import installed packages only, never a file in the folder where the job was started.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        # A worker that dies in native code prints its stack.
        "spark.python.worker.faulthandler.enabled": "true",
        # Twice the default. With 10,000 records, the overhead per batch in worker and JVM is a tenth of the time for
        # judging; 40,000 are not faster. Spark's limit of 64 MB per batch still applies, for large records.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        # PySpark would note the line of Python behind each call of a data frame, in dozens of calls of Java a batch.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # A batch is small; the default of 200 tasks costs more than the work.
        "spark.sql.shuffle.partitions": "2",
        # Adaptive execution splits small queries into more jobs than it saves.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        # Streams share the cores evenly, not in order of arrival.
        "spark.scheduler.mode": "FAIR",
        "spark.ui.enabled": str(settings.spark_ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        # The job has its own log, as JSON.
        "spark.log.level": "ERROR",
        # Plans, the UI, event logs and SET show options. This pattern covers Spark's own, more names of secrets for
        # Kafka and stores, and all properties of the catalog, which may have any name.
        "spark.redaction.regex": f"(?i){_SECRET.pattern}|sql[.]catalog[.]{CATALOG}[.]",
        # Cached batches live for a second: packing them costs more than the memory is worth.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # Checkpoints are not needed for correctness, so as little as possible is kept.
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        # Hadoop's file contexts start four processes, `readlink`, for each rename on a local disk. Its file systems start
        # none: an empty batch of a file source took 131 ms with the defaults of both settings, and 49 ms with these.
        "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
        "spark.sql.streaming.numRecentProgressUpdates": "4",
    }


def is_local(settings: SparkSettings) -> bool:
    """Return whether the workers are on the driver's machine."""
    return settings.spark_master.startswith("local")


def _cluster(settings: SparkSettings) -> dict[str, str]:
    """Return the settings of a driver with remote executors: its address and ports, for a firewall."""
    given = {
        "spark.driver.host": settings.spark_driver_host,
        "spark.driver.port": settings.spark_driver_port,
        "spark.blockManager.port": settings.spark_block_manager_port,
    }
    return {
        **{key: str(value) for key, value in given.items() if value is not None},
        "spark.executor.memory": settings.spark_executor_memory,
        # The configured host may be a name or address that no local interface has.
        **({"spark.driver.bindAddress": "0.0.0.0"} if settings.spark_driver_host else {}),  # noqa: S104 - executors come from outside
    }


def _jars(directory: Path | None) -> list[Path]:
    jars = sorted(directory.glob("*.jar")) if directory else []
    if not jars:
        raise SettingsError(
            f"no jars for Spark in {directory}; set TIDEGATE_SPARK_JARS to the directory that holds the Kafka and "
            "Iceberg connectors (tidegate doctor shows it)"
        )
    return jars


def _extra_jars(places: str) -> list[Path]:
    """Return the jars of files and folders, separated as in PATH. Raises SettingsError for an entry without jars."""
    found: list[Path] = []
    for place in filter(None, places.split(os.pathsep)):
        path = Path(place).absolute()
        jars = sorted(path.glob("*.jar")) if path.is_dir() else [path]
        if not jars or not all(jar.is_file() for jar in jars):
            raise SettingsError(f"TIDEGATE_SPARK_EXTRA_JARS: {place} is no jar, and no folder with jars")
        found += jars
    return found


def catalog_properties(settings: SinkSettings) -> dict[str, str]:
    """Return the properties of the Iceberg catalog as Spark needs them; the embedded catalog by default."""
    warehouse = settings.warehouse.absolute()
    return _without_login(settings.catalog_properties) or {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{warehouse}/catalog.db",
        "jdbc.schema-version": "V1",
        "warehouse": f"file://{warehouse}",
    }


def _without_login(properties: dict[str, str]) -> dict[str, str]:
    """Remove the login from the URL of a JDBC catalog, because Iceberg repeats the URL in its errors."""
    address, _, query = properties.get("uri", "").partition("?")
    if not address.startswith("jdbc:") or not query:
        return properties
    options = [option.partition("=") for option in query.split("&")]
    login = {f"jdbc.{name}": unquote_plus(value) for name, _, value in options if name in _LOGIN}
    kept = "&".join("".join(option) for option in options if option[0] not in _LOGIN)
    # A property overrides the URL, as in PyIceberg.
    return {**login, **properties, "uri": f"{address}?{kept}" if kept else address}


def catalog_options(settings: SinkSettings) -> dict[str, str]:
    """Return the session options for the Iceberg catalog; create the warehouse of the embedded catalog."""
    if not settings.catalog_properties:
        settings.warehouse.absolute().mkdir(parents=True, exist_ok=True)
    prefix = f"spark.sql.catalog.{CATALOG}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        # Publishing a batch changes the table without Spark; a cached table would be stale.
        f"{prefix}.cache-enabled": "false",
        **{f"{prefix}.{key}": value for key, value in catalog_properties(settings).items()},
    }


def _of_sink(settings: SinkSettings) -> dict[str, str]:
    """Return the extensions of the session, and other properties that only the sink needs."""
    jar, extra = settings.rules.jar, settings.rules.spark
    if jar is not None and not any(each.name.startswith(jar) for each in _jars(settings.spark_jars)):
        raise SettingsError(
            f"no {jar} jar in {settings.spark_jars}, which --sink {settings.sink} needs; tidegate jars brings it"
        )
    extensions = [_ICEBERG, extra[_EXTENSIONS]] if _EXTENSIONS in extra else [_ICEBERG]
    return {**extra, _EXTENSIONS: ",".join(extensions)}


def warm_up(spark: SparkSession) -> None:
    """Start the Python workers, and load the classes that a judging query needs. Never raises.

    It runs concurrently with the start of a stream; otherwise the first batch after a crash would wait for both.
    """
    slots = spark.sparkContext.defaultParallelism
    with suppress(Exception):  # the first batch will fail with a better message
        spark.range(0, slots, 1, slots).mapInArrow(_unchanged, "id long").toArrow()


def _unchanged(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    return batches


def _refuse_delegation_tokens(spark: SparkSession) -> None:
    for key, _ in spark.sparkContext.getConf().getAll():
        if key.startswith("spark.kafka.clusters."):
            raise SettingsError(f"{key}: Kafka delegation tokens are not supported; use SASL or TLS settings")


def _require_same_version(spark: SparkSession) -> None:
    """Raise SettingsError unless an executor has the same version of Tidegate as the driver."""
    ours = metadata.version("tidegate")
    (theirs,) = spark.sparkContext.parallelize([0], 1).map(lambda _: metadata.version("tidegate")).collect()
    if theirs != ours:
        raise SettingsError(f"the executors run tidegate {theirs}, the driver {ours}; install the same wheel")


def _require_file_io(spark: SparkSession, settings: SinkSettings) -> None:
    """Raise SettingsError unless Java can load the FileIO class of the catalog's object store."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

    name = settings.catalog_properties.get("io-impl")
    if name is None:
        return
    jvm = spark._jvm  # noqa: SLF001 - Iceberg's classes have no Python API
    assert jvm is not None  # noqa: S101 - narrows for the type checker
    none = jvm.java.util.HashMap()
    try:
        jvm.org.apache.iceberg.CatalogUtil.loadFileIO(name, none, None).close()
    except (Py4JError, PySparkException) as error:
        if "NoClassDefFoundError" in str(error) or "ClassNotFoundException" in str(error):
            raise SettingsError(
                f"TIDEGATE_CATALOG_PROPERTIES: Java lacks classes that io-impl={name} needs. Set "
                "TIDEGATE_SPARK_EXTRA_JARS to its jars; for S3, `tidegate jars --s3` installs them and prints the setting"
            ) from error


def _require_shared_warehouse(spark: SparkSession, settings: SinkSettings) -> None:
    """Raise SettingsError unless executors see the folder of the tables: their files would not be found."""
    if is_local(settings) or not settings.rules.needs_warehouse(settings):
        return
    folder = settings.warehouse.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / f".tidegate-{uuid4().hex}"
    mark.touch()
    try:
        name = str(mark)
        tasks = 4 * spark.sparkContext.defaultParallelism  # more than slots, so that each executor gets some
        blind = (
            spark.sparkContext.parallelize(range(tasks), tasks)
            .map(lambda _: (socket.gethostname(), os.path.exists(name)))  # noqa: PTH110 - runs before anything of ours is imported there
            .filter(lambda found: not found[1])
            .map(lambda found: found[0])
            .distinct()
            .collect()
        )
    finally:
        mark.unlink()
    if blind:
        raise SettingsError(
            f"executors on {', '.join(sorted(blind))} do not see the warehouse {folder}: mount it there under the same "
            "path, or keep tables in an object store (TIDEGATE_CATALOG_PROPERTIES)"
        )
