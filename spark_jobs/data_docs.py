"""The results of expectations as a page of Great Expectations' Data Docs."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Any

from tidegate.contracts.document.model import DataContract
from tidegate.contracts.expectations.library import write_suite
from tidegate.contracts.stream.report import ExpectationOutcome, ExpectationResult
from tidegate.contracts.words import seen


def data_docs_page(
    contract: DataContract, results: Sequence[ExpectationResult], name: str, at: datetime
) -> str:
    """Return the HTML page that Great Expectations renders; it loads its style sheet from the internet.

    `name` is what was audited, `at` when. Skipped expectations are left out. Like the results, the page contains no
    record values.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of its dependencies
        from great_expectations.core.expectation_validation_result import (  # noqa: PLC0415 - the import takes seconds
            ExpectationSuiteValidationResult,
            ExpectationValidationResult,
        )
        from great_expectations.expectations.expectation_configuration import (  # noqa: PLC0415 - the same
            ExpectationConfiguration,
        )
        from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer  # noqa: PLC0415 - the same
        from great_expectations.render.view.view import DefaultJinjaPageView  # noqa: PLC0415 - the same

    suite = _escaped(json.loads(write_suite(contract)))
    judged = [
        ExpectationValidationResult(
            success=result.outcome is ExpectationOutcome.MET,
            expectation_config=ExpectationConfiguration(**written),
            result=_figures(result),
            exception_info={
                "raised_exception": False,
                "exception_message": None,
                "exception_traceback": None,
            },
        )
        for written, result in zip(suite["expectations"], results, strict=True)
        if result.outcome is not ExpectationOutcome.SKIPPED
    ]
    met = sum(bool(each.success) for each in judged)
    validation = ExpectationSuiteValidationResult(
        success=met == len(judged),
        results=judged,
        suite_name=suite["name"],
        statistics={
            "evaluated_expectations": len(judged),
            "successful_expectations": met,
            "unsuccessful_expectations": len(judged) - met,
            "success_percent": 100 * met / len(judged) if judged else None,
        },
        meta={"run_id": {"run_name": _escaped(name), "run_time": at.isoformat()}},
    )
    view: Any = DefaultJinjaPageView()  # it has no type annotations
    page: str = view.render(ValidationResultsPageRenderer(run_info_at_end=True).render(validation))
    return page


def _escaped(value: Any) -> Any:
    """Return JSON with all texts made visible and escaped for HTML, because the library's renderer does neither."""
    match value:
        case str():
            return escape(seen(value))
        case list():
            return [_escaped(each) for each in value]
        case dict():
            return {key: _escaped(each) for key, each in value.items()}
    return value


def _figures(result: ExpectationResult) -> dict[str, Any]:
    """Return the figures of a result under the names that Great Expectations uses."""
    figures: dict[str, Any] = {"element_count": result.considered}
    if result.observed is not None:
        figures["observed_value"] = result.observed
    if result.unexpected is not None:
        figures["unexpected_count"] = result.unexpected
        figures["unexpected_percent"] = 100 * result.unexpected / max(result.considered, 1)
    return figures
