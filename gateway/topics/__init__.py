"""Topics as code: a file declares topics, a plan shows the differences, and applying it makes these changes only."""
