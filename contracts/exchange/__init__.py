"""Import of contracts from other formats, and export to them."""
