"""The contract document: its model, read from JSON or YAML with the place of each part."""
