"""Messages to people: what happened to a stream, sent to a webhook, to Slack and by e-mail."""
