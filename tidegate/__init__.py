"""Tidegate: data contracts, enforced on every record between Kafka and its tables.

The folders beside this file are links to the top level of the repository; an installed Tidegate has them here.
So its parts share no name with the `contracts`, `schemas` or `gateway` packages of those who use it.
"""
