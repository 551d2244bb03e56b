"""The streaming job: its streams, their settings, controls and reports."""
