"""What the registry does, in core Python: neither web framework nor database library is known here."""
