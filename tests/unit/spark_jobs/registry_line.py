"""A line from the job to the registry's application in this process, which a test can cut."""

from __future__ import annotations

from typing import Any

import httpx


class CuttableLine(httpx.MockTransport):
    """Takes requests to the application in this process, unless it is cut; remembers the answers' statuses."""

    def __init__(self, client: Any) -> None:
        super().__init__(self._carry)
        self._client = client
        self.is_cut = False
        self.answers_with: int | None = None
        self.says: object = None
        """What every request is answered with instead, as JSON; None for what the application answers."""
        self.statuses: list[int] = []

    def _carry(self, request: httpx.Request) -> httpx.Response:
        if self.is_cut:
            raise httpx.ConnectError("cut")
        if self.answers_with is not None:
            return httpx.Response(self.answers_with)
        if self.says is not None:
            return httpx.Response(200, json=self.says)
        headers = {
            k: v
            for k, v in request.headers.items()
            if k in {"content-type", "if-none-match", "authorization"}
        }
        answer = self._client.request(
            request.method, str(request.url.raw_path, "ascii"), content=request.read(), headers=headers
        )
        self.statuses.append(answer.status_code)
        return httpx.Response(
            answer.status_code, content=answer.content, headers={"ETag": answer.headers.get("ETag", "")}
        )
