"""The embedded run: a real broker, the gateway and the job as child processes, with nothing to install."""
