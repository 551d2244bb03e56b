"""The registry's API without I/O: requests are built and answers are read here, and sent by the client that is passed in."""
