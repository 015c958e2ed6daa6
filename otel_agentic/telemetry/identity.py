"""Who emits: our own resource and version, never those of the judged agent."""

from __future__ import annotations

import uuid
from importlib.metadata import PackageNotFoundError, version

from opentelemetry.sdk.resources import Resource

from otel_agentic.telemetry import names


def own_version() -> str:
    """Return the version of the installed distribution, `unknown` when run from a bare source tree."""
    try:
        return version(names.OWN_SERVICE_NAME)
    except PackageNotFoundError:
        return "unknown"


def own_resource(instance_id: str | None = None) -> Resource:
    """Return the resource of everything that this process emits; without an instance id, each call makes a new one."""
    attributes = {
        names.SERVICE_NAME: names.OWN_SERVICE_NAME,
        names.SERVICE_VERSION: own_version(),
        names.SERVICE_INSTANCE_ID: instance_id or str(uuid.uuid4()),
    }
    return Resource.create(attributes, schema_url=names.SCHEMA_URL)
