"""Contracts of other formats, read into Tidegate's and written from them."""
