"""The embedded run: a Kafka broker, the gateway and the job as child processes on this machine."""
