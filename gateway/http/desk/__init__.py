"""The desk: web pages that show which records were refused, and why."""
