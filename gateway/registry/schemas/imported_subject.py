"""Conversion of a registry's subject into a contract, with the parts that a contract cannot express.

Their places are JSON Pointers into the answer of `GET /subjects/{subject}/versions/latest`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from tidegate.contracts.document.model import Compatibility, DataContract
from tidegate.contracts.document.rule_model import Cel
from tidegate.contracts.errors import ContractError
from tidegate.contracts.exchange.imported import Imported, LeftOut, identifier, pointer, rule_id
from tidegate.gateway.registry.schemas.entities import AVRO, OWN_PROPERTIES, Metadata, RuleSet, SchemaRequest
from tidegate.gateway.registry.schemas.errors import Refused
from tidegate.gateway.registry.schemas.imported_rules import CLASS_PREFIX, PREFIX, import_rules, with_tags
from tidegate.gateway.registry.schemas.names import topic_of, unqualified
from tidegate.gateway.registry.schemas.parsing import ParsedSchema, parse_schema

Referred = Mapping[tuple[str, int], dict[str, Any]]
"""The entries of the versions that references name, by subject and number."""


def import_subject(
    subject: str, entry: dict[str, Any], referred: Referred, config: dict[str, Any]
) -> Imported:
    """Return the contract that a version of a subject describes. Raises ContractError, with places in the entry.

    `entry` is the version as the registry returns it, `config` the settings of the subject.
    """
    try:
        request = SchemaRequest.model_validate(entry)
        schema = _parsed(request, referred, ())
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise ContractError.at(pointer(*problem["loc"]), problem["msg"]) from None
    except Refused as error:
        raise ContractError.at("/schema", error.message) from None
    topic = topic_of(subject) or identifier(unqualified(subject)) or "records"
    document: dict[str, Any] = {
        "apiVersion": "tidegate/v1",
        "kind": "DataContract",
        "id": topic,
        "version": "1.0.0",
        "status": "active",
        "topic": topic,
        "framing": "confluent-prefix" if schema.schema_type == AVRO else "auto",
        "schema": {
            "type": "avro" if schema.schema_type == AVRO else "json-schema",
            "definition": schema.definition,
        },
    }
    left_out = [*_settings(config, document)]
    found = import_rules(request.rule_set, schema, request.metadata)
    if rules := _rules(found.rules, request.metadata):
        document["rules"] = rules
    if classes := _classes(document, schema, request.metadata):
        document["classification"] = classes
    places = _places(request.rule_set)
    for reason in found.left_out:
        name, _, rest = reason.partition(" ")
        if name in places:
            left_out.append(LeftOut(places[name], f"the rule `{name}` {rest}"))
        else:
            left_out.append(LeftOut("/schema", f"a rule {reason}"))
    left_out += _of_metadata(request.metadata)
    return Imported(document, tuple(left_out))


def _parsed(request: SchemaRequest, referred: Referred, above: tuple[tuple[str, int], ...]) -> ParsedSchema:
    others: dict[str, ParsedSchema] = {}
    for each in request.references:
        key = each.subject, each.version
        if key in above:
            raise ContractError.at("/references", f"`{each.subject}` refers to itself")
        other = SchemaRequest.model_validate(referred[key])
        others[each.name] = _parsed(other, referred, (*above, key))
    return parse_schema(request.schema_type, request.schema_text, others)


def _rules(found: Iterable[Cel], metadata: Metadata | None) -> list[dict[str, Any]]:
    """Return the contract's own rules, which tidegate's registry adds to metadata, and the rule set's other rules."""
    own = json.loads((metadata or Metadata()).properties.get(f"{OWN_PROPERTIES}rules", "[]"))
    known = {each["id"] for each in own}
    imported = [
        each.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        for each in found
        if each.id not in known
    ]
    rules = [*own, *imported]
    names: list[str] = []
    for each in rules:
        names.append(rule_id(each["id"].removeprefix(PREFIX), names))
    return [{**each, "id": name} for each, name in zip(rules, names, strict=True)]


def _classes(document: dict[str, Any], schema: ParsedSchema, metadata: Metadata | None) -> dict[str, str]:
    """Return the classes that the metadata's tags give to fields, without the prefix of classes of a subject."""
    tagged = with_tags(DataContract.model_validate({**document, "rules": []}), schema, metadata)
    return {place: name.removeprefix(CLASS_PREFIX) for place, name in tagged.classification.items()}


def _settings(config: dict[str, Any], document: dict[str, Any]) -> Iterator[LeftOut]:
    """Put the compatibility level into the document; yield other settings of the subject."""
    level = str(config.get("compatibilityLevel") or config.get("compatibility") or "").upper()
    if level in {each.value for each in Compatibility}:
        document["compatibility"] = level
    for name, value in config.items():
        if name not in {"compatibilityLevel", "compatibility", "alias"} and value not in (
            None,
            False,
            "",
            {},
        ):
            yield LeftOut("", f"the setting `{name}` of the subject is not part of a contract")


def _of_metadata(metadata: Metadata | None) -> Iterator[LeftOut]:
    if metadata is None:
        return
    for name in metadata.properties:
        if not name.startswith(OWN_PROPERTIES):
            yield LeftOut(pointer("metadata", "properties", name), "a property is not part of a contract")
    for index, name in enumerate(metadata.sensitive):
        yield LeftOut(
            pointer("metadata", "sensitive", index),
            f"that the property `{name}` is sensitive is not part of a contract",
        )


def _places(rule_set: RuleSet | None) -> dict[str, str]:
    """Return the pointer to each rule by its name."""
    if rule_set is None:
        return {}
    lists = {
        "migrationRules": rule_set.migration_rules,
        "domainRules": rule_set.domain_rules,
        "encodingRules": rule_set.encoding_rules,
    }
    return {
        rule.name: pointer("ruleSet", list_name, index)
        for list_name, rules in lists.items()
        for index, rule in enumerate(rules)
    }
