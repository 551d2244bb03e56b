"""Secrets of the catalog reach Spark, and no list of processes, page or log shows them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.gateway.embedded.jars import Jars

SECRET = "s3cr3t-4711"  # noqa: S105 - it opens nothing
PROPERTIES = {
    "type": "jdbc",
    "jdbc.schema-version": "V1",
    "credential": f"id:{SECRET}",
    "jdbc.password": f"{SECRET}-of-the-database",
    "s3.access-key-id": f"{SECRET}-of-the-store",
    "header.X-Team": f"{SECRET}-of-the-team",
}
LOOK = """
import json, psutil
from tidegate.spark_jobs.session import build_session
from tidegate.spark_jobs.settings import SinkSettings

settings = SinkSettings()
spark = build_session(settings)
spark.sql("CREATE NAMESPACE lake.seen")
me = psutil.Process()

def command_of(process):
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # it has ended meanwhile, as Hadoop's short commands do
        return []

print(json.dumps({
    "processes": [command_of(each) for each in [me, *me.children(recursive=True)]],
    "new session": {key: spark.newSession().conf.get("spark.sql.catalog.lake." + key) for key in settings.catalog_properties},
    "shown": [list(row) for row in spark.sql("SET -v").collect()] + [list(row) for row in spark.sql("SET").collect()],
    "repr": repr(settings),
}), flush=True)
spark.stop()
"""


@pytest.mark.full
def test_catalog_secrets_are_in_no_list_of_processes(jars: Jars, tmp_path: Path) -> None:
    properties = PROPERTIES | {"uri": f"jdbc:sqlite:{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    environment = {
        **os.environ,
        "TIDEGATE_BOOTSTRAP_SERVERS": "none:0",
        "TIDEGATE_WAREHOUSE": str(tmp_path),
        "TIDEGATE_SPARK_JARS": str(jars.spark_dir),
        "TIDEGATE_SPARK_MASTER": "local[1]",
        "TIDEGATE_SPARK_DRIVER_MEMORY": "1g",
        "TIDEGATE_CATALOG_PROPERTIES": json.dumps(properties),
        "SPARK_CONF_DIR": str(tmp_path),
    }
    (tmp_path / "events").mkdir()
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir file://{tmp_path}/events\nspark.eventLog.compress false\n"
    )
    job = subprocess.Popen(
        [sys.executable, "-c", LOOK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    said, log = job.communicate()
    assert job.returncode == 0, log
    seen = json.loads(said)
    commands = [" ".join(command) for command in seen["processes"]]
    assert any("org.apache.spark.deploy.SparkSubmit" in command for command in commands)
    assert [command for command in commands if SECRET in command] == []
    assert seen["new session"] == properties, "the catalog gets each property, in every session"
    assert [row for row in seen["shown"] if SECRET in str(row)] == []
    assert SECRET not in seen["repr"]
    assert SECRET not in log
    events = [path for path in (tmp_path / "events").rglob("*") if path.is_file()]
    assert any("SparkListenerEnvironmentUpdate" in path.read_text() for path in events)
    assert [path.name for path in events if SECRET in path.read_text()] == []
