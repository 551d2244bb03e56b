"""Topics as code: a file declares topics, a plan shows the differences, and `apply` makes exactly these changes."""
