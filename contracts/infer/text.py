"""A proposed contract as YAML text, in the order of the record's fields, with its evidence as comments."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tidegate.contracts.infer.infer import Inferred
from tidegate.contracts.infer.proposal import Proposal
from tidegate.contracts.words import counted, seen

_WIDTH: Final = 116
_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*( [A-Za-z0-9_./,()-]+)*\.?")
_TEXT_IN_YAML: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]+\.[0-9]+\.[0-9]+")
"""Dates and versions, which YAML 1.2 reads as text without quotes."""
_WORDS_OF_YAML: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def contract_text(
    found: Inferred, *, source: str, schema_file: str | None, places: Callable[[Sequence[int]], str]
) -> str:
    """Return the YAML of a proposed contract. `places` describes positions of records, `source` where they come from.

    Without a `schema_file`, the schema is part of the text.
    """
    lines = [*_head(found, source, places), *_schema(found, schema_file, places)]
    if found.key is not None:
        lines += ["", *_key(found, found.key, places)]
    lines += ["", *_rules(found, places), "on_violation: quarantine"]
    lines += _budget(found)
    if "classification" in found.document:
        lines += ["", *_classification(found)]
    return "\n".join(lines) + "\n"


def _head(found: Inferred, source: str, places: Callable[[Sequence[int]], str]) -> Iterator[str]:
    evaluation = found.evaluation
    yield from _comment(
        f"Inferred from {counted(found.records, 'record')} of {source}. Read each line before you publish it."
    )
    if found.broken.count:
        verb = "is" if found.broken.count == 1 else "are"
        records = counted(found.broken.count, "record")
        yield from _comment(f"{records} could not be read, and {verb} not part of it.")
        for line, _ in found.broken.lines(places):
            yield from _comment(line)
    if evaluation.records:
        yield from _comment(
            f"{evaluation.records:,} of the records were held back and judged by this contract: "
            f"{evaluation.explained + evaluation.broken:,} are refused for reasons listed below, "
            f"{evaluation.unexpected.count:,} for others ({evaluation.false_refusals:.3%} false refusals are to be expected)."
        )
    for name in ("apiVersion", "kind", "id", "version"):
        yield f"{name}: {scalar(found.document[name])}"
    yield "status: draft"
    yield f"topic: {scalar(found.document['topic'])}"


def _schema(
    found: Inferred, schema_file: str | None, places: Callable[[Sequence[int]], str]
) -> Iterator[str]:
    for each in found.structure.proposals:
        if each.exceptions or each.doubt is not None:
            doubt = (
                "" if each.doubt is None else f" Doubtful, so the schema has no {each.code}: {each.doubt}."
            )
            yield from _comment(f"{each.pointer}: {each.because}. {_evidence(each, places)}{doubt}")
    kind = found.document["schema"]["type"]
    yield "schema:"
    yield f"  type: {kind}"
    if schema_file is None:
        yield "  definition:"
        yield from (f"    {line}" for line in _printable(schema_text(found.definition)).splitlines())
    else:
        yield f"  file: {scalar(schema_file)}"
    if "columns" in found.document:
        yield from _comment("Derived columns would have equal names, or not hold all values.")
        yield "columns:"
        yield from (f"  - {flow(each)}" for each in found.document["columns"])
    if "framing" in found.document:
        yield f"framing: {found.document['framing']}"


def _key(found: Inferred, key: Proposal, places: Callable[[Sequence[int]], str]) -> Iterator[str]:
    if key.is_enforced:
        yield from _comment(f"{key.because}, in {key.support:,} records.")
        yield f"primary_key: {flow(found.document['primary_key'])}"
        return
    yield from _comment(
        f"{key.because}, except for {key.exceptions:,} records ({places(key.first)}). Is it the key?"
    )
    yield f"# primary_key: [{scalar(key.path[0])}]"


def _rules(found: Inferred, places: Callable[[Sequence[int]], str]) -> Iterator[str]:
    if not found.rules:
        yield "rules: []"
    else:
        yield "rules:" if any(each.is_enforced for each in found.rules) else "# rules:"
    for each in found.rules:
        rule = each.rule or {}
        doubt = "" if each.doubt is None else f" Doubtful: {each.doubt}."
        text = f"{each.because[:1].upper()}{each.because[1:]}. {_evidence(each, places)}{doubt}"
        yield from _comment(text, "  # ")
        mark = "  " if each.is_enforced else "  # "
        yield from rule_lines(rule, mark)


def rule_lines(rule: dict[str, Any], mark: str = "  ") -> Iterator[str]:
    """Yield the lines of a rule as an item of the list `rules`; each begins with `mark`, such as a comment sign."""
    for index, (name, value) in enumerate(rule.items()):
        yield from _entry(f"{mark}{'- ' if index == 0 else '  '}{name}: ", f"{mark}    ", flow(value))


def _entry(first: str, following: str, text: str) -> Iterator[str]:
    """Yield the lines of one entry of a rule; a long list continues on the next lines."""
    if not text.startswith("[") or len(first) + len(text) <= _WIDTH or any(each in text for each in "\"'"):
        yield first + text
        return
    yield from textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=following,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _evidence(each: Proposal, places: Callable[[Sequence[int]], str]) -> str:
    if each.exceptions:
        text = f"Violated by {each.exceptions:,} of {each.support:,} ({_share(each)}): {places(each.first)}."
    else:
        text = f"Holds for all {each.support:,}."
    if each.held_back:
        records = "record" if each.held_back == 1 else "records"
        how = f"{each.unexpected:.0f} more than" if each.unexpected >= 1 else "as"
        text += f" Refuses {each.held_back:,} held-back {records}, {how} expected."
    return text


def _share(each: Proposal) -> str:
    if each.share < 0.0005:
        return f"{each.share * 1e6:,.0f} in a million"
    return f"{100 * each.share:.2g} %"


def _budget(found: Inferred) -> Iterator[str]:
    """Yield an error budget of about three times the share of held-back records that were refused."""
    evaluation = found.evaluation
    refused = (evaluation.explained + evaluation.broken) / max(evaluation.records, 1)
    ratio = next(step for step in (0.02, 0.05, 0.1, 0.2, 0.5, 1) if step >= min(1, 3 * refused))
    yield f"error_budget: {{ratio: {ratio}, min_records: 500, action: pause}}"


def _classification(found: Inferred) -> Iterator[str]:
    yield from _comment("Personal data, by names and formats. Check the fields that are not listed, too.")
    yield "classification:"
    for path, why in found.personal.items():
        pointer = Proposal("", path, "", 0).pointer
        if pointer in found.document["classification"]:
            yield f"  {scalar(pointer)}: {found.document['classification'][pointer]}  # {why}"


def _comment(text: str, mark: str = "# ") -> Iterator[str]:
    for line in textwrap.wrap(seen(text), _WIDTH - len(mark), break_long_words=False, break_on_hyphens=False):
        yield mark + line


def flow(value: Any) -> str:
    """Return a value in flow style, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {flow(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_in_flow(each) for each in value) + "]"
    return scalar(value)


def _in_flow(value: Any) -> str:
    text = flow(value)
    return (
        json.dumps(value)
        if isinstance(value, str)
        and any(each in text for each in ",[]{}")
        and not text.startswith(('"', "'"))
        else text
    )


def scalar(value: Any) -> str:
    """Return a scalar as YAML 1.2 reads it back."""
    if not isinstance(value, str):
        return json.dumps(value)
    is_plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS_OF_YAML
    if is_plain or _TEXT_IN_YAML.fullmatch(value):
        return value
    if "\\" in value and "'" not in value and value.isascii() and value.isprintable():
        return f"'{value}'"  # patterns are easier to read without doubled backslashes
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(
        each if each.isprintable() else "".join(f"\\u{ord(unit):04x}" for unit in _units(each))
        for each in quoted
    )


def _printable(text: str) -> str:
    """Return JSON with YAML escapes for unprintable characters."""
    return "".join(each if each.isprintable() or each == "\n" else f"\\U{ord(each):08x}" for each in text)


def _units(character: str) -> str:
    return character if ord(character) <= 0xFFFF else "\ufffd"


def schema_text(definition: Any) -> str:
    """Return a schema as readable JSON, with short objects and lists on one line."""
    return _layout(definition, 0) + "\n"


def _layout(value: Any, depth: int) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + 2 * depth <= 100 and (not isinstance(value, dict) or "properties" not in value):
        return flat
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict):
        rows = [
            f"{inner}{json.dumps(name, ensure_ascii=False)}: {_layout(each, depth + 1)}"
            for name, each in value.items()
        ]
        return "{\n" + ",\n".join(rows) + f"\n{outer}}}"
    if isinstance(value, list):
        if all(isinstance(each, str) for each in value):
            lines = textwrap.wrap(
                ", ".join(json.dumps(each, ensure_ascii=False) for each in value), 100, break_long_words=False
            )
            return "[\n" + "\n".join(inner + line for line in lines) + f"\n{outer}]"
        return "[\n" + ",\n".join(inner + _layout(each, depth + 1) for each in value) + f"\n{outer}]"
    return flat
