"""Check the standard variables of OpenTelemetry for traces. Imports nothing of it, because it is an extra."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
HTTP_PROTOBUF: Final = "http/protobuf"


def are_traces_wanted(environment: Mapping[str, str]) -> bool:
    """Return whether the environment names a receiver of traces, and does not turn them off.

    Source: OpenTelemetry, "Environment Variable Specification" and "OTLP Exporter Configuration". A variable that is
    empty counts as not set.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if (environment.get("OTEL_TRACES_EXPORTER") or "otlp").strip().lower() != "otlp":
        return False
    return any(environment.get(name) for name in _ENDPOINTS)


def wanted_protocol(environment: Mapping[str, str]) -> str:
    """Return the protocol that the environment asks for; without one, the one that is supported."""
    return next((environment[name] for name in _PROTOCOLS if environment.get(name)), HTTP_PROTOBUF)
