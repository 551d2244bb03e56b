"""The desk: pages on which people see what was refused, and why."""
