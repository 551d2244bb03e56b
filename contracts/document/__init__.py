"""What an author writes: the contract model, read from JSON or YAML with the place of each part."""
