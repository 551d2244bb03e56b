"""The request and response models of the native API."""
