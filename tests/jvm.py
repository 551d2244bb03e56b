"""How tests start Java."""

from __future__ import annotations

SHORT_LIVED_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Environment of processes that start a Java for a few seconds: its best compiler would only keep the cores busy meanwhile."""
