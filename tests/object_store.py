"""An S3 server in a thread of this process, with requests that fail on demand."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "lake"
KEY_ID, SECRET, REGION = "tidegate", "secret-of-the-store", "us-east-1"
_ROOT = b"CompleteMultipartUploadResponse"
"""The root element of Moto's answer; the S3 API and PyArrow expect `CompleteMultipartUploadResult`."""

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class ObjectStore:
    """An S3 API over HTTP with one bucket."""

    def __init__(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it logs a line for each request
        self._application: Application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self.fails: Callable[[dict[str, Any]], bool] = lambda _: False
        """Returns for the WSGI environment of a request whether the answer is 503 SlowDown."""
        self.failed = 0
        self._client = boto3.client(
            "s3",
            endpoint_url=self.address,
            aws_access_key_id=KEY_ID,
            aws_secret_access_key=SECRET,
            region_name=REGION,
        )
        self._client.create_bucket(Bucket=BUCKET)

    def catalog(self, uri: str) -> dict[str, str]:
        """Return the properties of a JDBC catalog whose tables are in the bucket."""
        return {
            "type": "jdbc",
            "uri": uri,
            "jdbc.schema-version": "V1",
            "warehouse": f"s3://{BUCKET}/tables",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": self.address,
            "s3.access-key-id": KEY_ID,
            "s3.secret-access-key": SECRET,
            "s3.path-style-access": "true",
            "s3.region": REGION,
            "client.region": REGION,
        }

    def objects(self) -> list[str]:
        """Return the keys of the objects in the bucket, read with a client that the job does not use."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _serve(self, environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if self.fails(environment):
            self.failed += 1
            start("503 Slow Down", [("Content-Type", "application/xml")])
            return [
                b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
            ]
        answer: list[Any] = []
        body = b"".join(self._application(environment, lambda *told: answer.extend(told)))
        status, headers = answer[:2]
        if _ROOT in body:
            body = body.replace(_ROOT, b"CompleteMultipartUploadResult")
        sized = [(name, value) for name, value in headers if name.lower() != "content-length"]
        length = (
            dict(headers).get("Content-Length", str(len(body)))
            if environment["REQUEST_METHOD"] == "HEAD"
            else str(len(body))
        )
        start(status, [*sized, ("Content-Length", length)])
        return [body]


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Run a store, and stop it at the end."""
    store = ObjectStore()
    try:
        yield store
    finally:
        store.close()
