"""Alerts about streams, sent to people by webhook, Slack and e-mail."""
