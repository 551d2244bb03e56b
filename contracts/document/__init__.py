"""The contract document: its model, and how it is read from JSON or YAML with the position of each part."""
