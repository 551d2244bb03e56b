"""The report as JUnit XML, which every CI system reads: a suite for each contract, a case for each finding.

Source: the schema that Jenkins publishes (junit-10.xsd); there is no specification.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from tidegate.contracts.words import seen
from tidegate.gateway.checks.results import CheckReport, ContractCheck, message


def check_junit(report: CheckReport) -> str:
    """Write a report as JUnit XML. Findings that fail the run are failures; a contract without findings is a pass.

    Characters that XML cannot represent are not visible either, so they are written as codes.
    """
    suites = ET.Element("testsuites", name="tidegate check")
    for contract in report.contracts:
        suites.append(_suite(report, contract))
    for total in ("tests", "failures"):
        suites.set(total, str(sum(int(suite.get(total, "0")) for suite in suites)))
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def _suite(report: CheckReport, contract: ContractCheck) -> ET.Element:
    name = contract.contract_id or contract.file
    suite = ET.Element("testsuite", name=seen(contract.file), tests=str(max(1, len(contract.findings))))
    failures = 0
    for finding in contract.findings:
        case = ET.SubElement(
            suite,
            "testcase",
            name=f"{finding.code} at {finding.spot.line}:{finding.spot.column}",
            classname=seen(name),
            file=seen(finding.spot.file),
            line=str(finding.spot.line),
        )
        text = f"{seen(str(finding.spot))}\n{message(finding)}"
        if report.fails(contract, finding):
            failures += 1
            failure = ET.SubElement(case, "failure", type=finding.code, message=seen(finding.sentence))
            failure.text = text
        else:
            ET.SubElement(case, "system-out").text = text
    if not contract.findings:
        ET.SubElement(suite, "testcase", name="compatible", classname=seen(name), file=seen(contract.file))
    suite.set("failures", str(failures))
    suite.set("errors", "0")
    return suite
