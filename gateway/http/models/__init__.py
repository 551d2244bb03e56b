"""Bodies of requests and answers of the native API."""
