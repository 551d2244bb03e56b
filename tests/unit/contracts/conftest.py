"""Generated cases may take as long as a busy machine needs."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("tidegate", deadline=None)
settings.load_profile("tidegate")
