"""Comparison of the rules of two contracts: a record that passes the old rules must pass the new ones.

Each rule of `new` that refuses records must be covered by the rules or the schema of `old`; otherwise a counterexample
is searched. A difference with neither proof nor counterexample is undetermined, and blocks like a refutation.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import cache
from typing import Any, Final

from tidegate.contracts.compatibility.expressions import MAX_STEPS, Members, RecordMember, refuses_as_much
from tidegate.contracts.compatibility.finding import Change, Direction, FindingSeverity, overlap, was_and_is
from tidegate.contracts.compatibility.predicates import Predicate, implied, predicate_of
from tidegate.contracts.compatibility.rule_schemas import covered_by_schema, member_of
from tidegate.contracts.compatibility.separation import Search
from tidegate.contracts.compatibility.witness_search import ContractPair, Judge
from tidegate.contracts.document.fields import tokens
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.rule_model import Cel, Rule
from tidegate.contracts.document.terms import OnViolation, equal_json
from tidegate.contracts.formats.avro_types import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union
from tidegate.contracts.inclusion.answer import Outcome
from tidegate.contracts.inclusion.json_schema.prover import Budget
from tidegate.contracts.rules.compile import effect, refuses
from tidegate.contracts.rules.kinds.registry import kind_of, refused_set
from tidegate.contracts.rules.places import Path
from tidegate.contracts.rules.rule_kind import BrokenExpression

CODES: Final = {
    "rule.added": "a rule is new",
    "rule.removed": "a rule is gone",
    "rule.tightened": "a rule refuses records that it let pass",
    "rule.loosened": "a rule lets records pass that it refused",
    "rule.consequence-raised": "breaking a rule keeps a record from being written, and did not",
    "rule.consequence-lowered": "breaking a rule kept a record from being written, and does not any more",
    "rule.on-violation-changed": "what happens to a refused record is something else",
    "rule.rewritten": "a rule is written in another way, and refuses no other records",
    "rule.warning-changed": "a rule that keeps no record from being written is another",
}
"""Every code that a comparison of rules can report, with its meaning. The codes are stable."""

MAX_PROOFS: Final = 8
"""Maximum rules of one direction for which a proof from the schema is attempted."""
MAX_EXPRESSION: Final = 2_000
"""Maximum characters of a CEL expression that is analysed; a longer one is compared as text only."""
_MEMBER_STEPS: Final = 1_000
"""Steps of the budget for expressions that are charged for a proof from the schema about one member."""
_NUMBERS: Final = {"int": "whole", "long": "whole", "float": "fraction", "double": "fraction"}
"""Sorts of Avro numbers that CEL distinguishes."""
_ANNOTATIONS: Final = frozenset({"id", "kind", "description", "severity", "on_violation"})
_CONSEQUENCE: Final = frozenset({"severity", "on_violation"})


def compare_rules(base: Judge, candidate: Judge, altered: frozenset[str] = frozenset()) -> Iterator[Change]:
    """Yield the changes between the rules of two contracts, in both directions.

    `altered` are the fields whose values differ if they are read with the other schema. For these, equal rules prove
    nothing.
    """
    reported: set[str] = set()
    for direction in Direction:
        for rule_id, change in _new_refusals(base, candidate, direction, altered):
            reported.add(rule_id)
            yield change
    yield from _harmless(base.contract, candidate.contract, reported)


def _new_refusals(
    base: Judge, candidate: Judge, direction: Direction, altered: frozenset[str]
) -> Iterator[tuple[str, Change]]:
    """Yield the id and the change of each rule of the new contract that the old contract does not imply.

    Backward, the base is the old contract and the candidate the new one; forward, the reverse.
    """
    old, new = (base, candidate) if direction is Direction.BACKWARD else (candidate, base)
    search = Search(ContractPair(old, new))
    before = {rule.id: rule for rule in old.contract.rules}
    known: list[Predicate] | None = None
    proofs, budget = MAX_PROOFS, Budget(MAX_STEPS)
    # With `on_violation: alert`, records that violate the schema are written too. A CEL rule that fails on such a record
    # does not refuse it. So nothing may be concluded from the schema.
    fits = old.contract.on_violation is not OnViolation.ALERT
    # Such records then also depend on the schema by which they are read.
    is_one_schema = old.contract.schema_ == new.contract.schema_  # compared once, because it may be large
    is_reread = not fits and not is_one_schema
    members = _members_of(old, budget)
    for rule in new.contract.rules:
        predecessor = before.get(rule.id)
        if not refuses(rule, new.contract):
            continue
        is_altered = any(overlap(name, other) for name in kind_of(rule).fields(rule) for other in altered)
        is_altered = is_altered or (
            isinstance(rule, Cel) and (is_reread or _reads_other_values(rule, old, new))
        )
        if not is_altered and _is_same(rule, predecessor, old, new, is_one_schema=is_one_schema):
            continue
        if known is None:  # built at most once, and only if a rule has changed
            refusing = (each for each in old.contract.rules if refuses(each, old.contract))
            read = (predicate_of(other, old.fields, fits=fits) for other in refusing)
            known = [each for each in read if each is not None]
        predicate = predicate_of(rule, new.fields, fits=fits)
        is_implied = predicate is not None and not is_altered and implied(predicate, known)
        if is_implied or (
            not is_altered and _is_covered_by_expressions(rule, old, members, budget, fits=fits)
        ):
            continue
        found = search.refusal(rule, [predecessor] if predecessor else [])
        # Each rule without a counterexample uses up one attempt at a proof from the schema.
        proofs -= found is None
        if found is None and fits and proofs >= 0 and covered_by_schema(rule, old.contract, new.fields):
            continue
        outcome = Outcome.UNDETERMINED if found is None else Outcome.REFUTED
        code = _code(predecessor, old.contract, direction)
        pointer, base_pointer = _pointers(rule.id, base.contract, candidate.contract)
        yield (
            rule.id,
            Change(
                code,
                _sentence(code, rule, base.contract, candidate.contract, outcome),
                pointer,
                base_pointer,
                outcome,
                kind_of(rule).places(rule),
                frozenset({direction}),
                counterexample=found.counterexample if found else None,
            ),
        )


def _is_same(rule: Rule, predecessor: Rule | None, old: Judge, new: Judge, *, is_one_schema: bool) -> bool:
    """Return whether the predecessor of a rule has the same meaning and is about fields of the same types."""
    if predecessor is None or not refuses(predecessor, old.contract):
        return False
    if not have_one_meaning(rule, predecessor):
        return False
    if is_one_schema:
        return True
    return all(old.fields.find(name) == new.fields.find(name) for name in kind_of(rule).fields(rule))


def _reads_other_values(rule: Cel, old: Judge, new: Judge) -> bool:
    """Return whether an expression may see other values if the same Avro record is read with the new schema.

    This applies to promoted numbers (CEL does not add 1 to 5.0) and to records that gain or lose fields (`size(this)`).
    """
    if old.avro is None or new.avro is None:
        return False
    places = map(tokens, kind_of(rule).places(rule))
    return any(not _shapes(old.avro, path) <= _shapes(new.avro, path) for path in places)


def _shapes(node: AvroType, path: Path) -> frozenset[Hashable]:
    """Return the sorts of values that an expression may find at a path below a type."""
    if isinstance(node, Union):
        return frozenset().union(*(_shapes(branch, path) for branch in node.branches))
    if not path:
        return frozenset([_shape(node, frozenset())])
    match node:
        case Record():
            found = (each.type for each in node.fields if each.name == path[0])
            return frozenset().union(*(_shapes(each, path[1:]) for each in found))
        case Array():
            return _shapes(node.items, path[1:])
        case Map():
            return _shapes(node.values, path[1:])
        case _:
            return frozenset()


def _shape(node: AvroType, within: frozenset[int]) -> Hashable:  # noqa: PLR0911 - one for each type
    """Return a key that is equal for types whose values an expression cannot distinguish.

    `within` are the ids of the enclosing records, which end recursion.
    """
    match node:
        case Union():
            return frozenset(_shape(branch, within) for branch in node.branches)
        case Record() if id(node) in within:
            return node.name
        case Record():
            inside = within | {id(node)}
            return frozenset((each.name, _shape(each.type, inside)) for each in node.fields)
        case Array():
            return "items", _shape(node.items, within)
        case Map():
            return "values", _shape(node.values, within)
        case Primitive():
            return _NUMBERS.get(node.kind, node.kind), node.logical
        case Fixed():
            return "bytes", node.logical
        case Enum():  # enums whose symbols are read as others are in `altered`
            return "symbol"


def _is_covered_by_expressions(
    rule: Rule, old: Judge, members: Members, budget: Budget, *, fits: bool
) -> bool:
    """Return whether expressions of the old contract refuse everything that the rule's expression refuses."""
    wanted = _expression(rule)
    if wanted is None:
        return False
    refusing = (each for each in old.contract.rules if refuses(each, old.contract))
    others = [cel for each in refusing if (cel := _expression(each)) is not None]
    # The rule with the same id is tried first.
    others.sort(key=lambda each: each.id != rule.id)
    if not others or not refuses_as_much(wanted, others, members, budget):
        return False
    return fits or refuses_as_much(wanted, others, lambda _: None, budget, fits=False)


def _expression(rule: Rule) -> Cel | None:
    """Return the rule if what it refuses is defined by a CEL expression that is not too long; otherwise None."""
    form = refused_set(rule)
    return form.rule if isinstance(form, BrokenExpression) and len(form.rule.expr) <= MAX_EXPRESSION else None


def _members_of(old: Judge, budget: Budget) -> Members:
    """Return a function that describes a member of the records of `old`; it spends budget and caches its results."""

    @cache
    def known(path: Path) -> RecordMember | None:
        budget.spend(_MEMBER_STEPS)
        return member_of(old.contract, old.fields, path)

    return known


def _harmless(base: DataContract, candidate: DataContract, reported: set[str]) -> Iterator[Change]:
    """Yield the changes of rules that break nothing; `reported` are the ids of rules with a breaking change."""
    before = {rule.id: rule for rule in base.rules}
    after = {rule.id: rule for rule in candidate.rules}
    for rule_id in dict.fromkeys([*before, *after]):
        old, new = before.get(rule_id), after.get(rule_id)
        shown = new or before[rule_id]
        fields = kind_of(shown).places(shown)
        is_refusing = [old is not None and refuses(old, base), new is not None and refuses(new, candidate)]
        is_alike = is_refusing[0] == is_refusing[1]
        if old and new and is_alike and effect(old, base) is not effect(new, candidate):
            sentence = f"what breaking the rule `{rule_id}` does to a record {_effect_change(old, new, base, candidate)}"
            severity = FindingSeverity.WARNING if is_refusing[1] else FindingSeverity.INFO
            code = "rule.on-violation-changed"
            pointer, base_pointer = _pointers(rule_id, base, candidate)
            yield Change(code, sentence, pointer, base_pointer, Outcome.PROVEN, fields, frozenset(), severity)
        if rule_id in reported or (old and new and have_one_meaning(old, new)):
            continue
        is_enforced = any(is_refusing)
        code = "rule.rewritten" if is_enforced else "rule.warning-changed"
        if old is None or new is None:
            code = "rule.added" if old is None else "rule.removed"
        what = "refuses no other records" if is_enforced else "keeps no record from being written"
        how = "is new" if old is None else "is gone" if new is None else f"changed ({_difference(old, new)})"
        sentence = f"the rule `{rule_id}` {how}; it {what}"
        pointer, base_pointer = _pointers(rule_id, base, candidate)
        yield Change(code, sentence, pointer, base_pointer, Outcome.PROVEN, fields)


def _code(predecessor: Rule | None, old: DataContract, direction: Direction) -> str:
    is_backward = direction is Direction.BACKWARD
    if predecessor is None:
        return "rule.added" if is_backward else "rule.removed"
    if not refuses(predecessor, old):
        return "rule.consequence-raised" if is_backward else "rule.consequence-lowered"
    return "rule.tightened" if is_backward else "rule.loosened"


def _sentence(code: str, rule: Rule, base: DataContract, candidate: DataContract, outcome: Outcome) -> str:
    before = next((each for each in base.rules if each.id == rule.id), None)
    after = next((each for each in candidate.rules if each.id == rule.id), None)
    may = "may refuse" if outcome is Outcome.UNDETERMINED else "refuses"
    doubt = " (no record was found that shows it, and no proof that there is none)"
    end = doubt if outcome is Outcome.UNDETERMINED else ""
    name = f"the rule `{rule.id}`"
    match code:
        case "rule.added":
            return f"{name} is new and {may} records that version {base.version} lets pass{end}"
        case "rule.removed":
            refused = "may have refused" if end else "refused"
            return f"{name} is gone: records that it {refused} pass now{end}"
        case "rule.tightened":
            return f"{name} {may} records that it let pass: {_difference(before, after)}{end}"
        case "rule.loosened":
            lets = "may let" if end else "lets"
            return f"{name} {lets} records pass that it refused: {_difference(before, after)}{end}"
    assert before is not None  # noqa: S101 - both contracts have the rule
    assert after is not None  # noqa: S101 - both contracts have the rule
    return f"what breaking {name} does to a record {_effect_change(before, after, base, candidate)}{end}"


def _difference(before: Rule | None, after: Rule | None) -> str:
    """Return the members of a rule that changed, as "name was X and is Y"."""
    old, new = ({} if each is None else _document(each) for each in (before, after))
    names = [
        name
        for name in dict.fromkeys([*old, *new])
        if name not in _CONSEQUENCE and not equal_json(old.get(name), new.get(name))
    ]
    return ", ".join(was_and_is(name, old.get(name), new.get(name)) for name in names) or "it is the same"


def _effect_change(old: Rule, new: Rule, base: DataContract, candidate: DataContract) -> str:
    before, after = effect(old, base), effect(new, candidate)
    return f"was {before.value if before else 'a warning'} and is {after.value if after else 'a warning'}"


def have_one_meaning(one: Rule, other: Rule) -> bool:
    """Return whether two rules require the same: only ids, descriptions, severities and consequences may differ."""
    return equal_json(_meaning(one), _meaning(other))


def _meaning(rule: Rule) -> dict[str, Any]:
    return {"kind": rule.kind} | {
        name: value for name, value in _document(rule).items() if name not in _ANNOTATIONS
    }


def _document(rule: Rule) -> dict[str, Any]:
    return rule.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _pointers(rule_id: str, base: DataContract, candidate: DataContract) -> tuple[str, str]:
    """Return the pointers of a rule into candidate and base; if only one key has changed, those of that key."""
    places: list[str] = []
    documents: list[dict[str, Any]] = []
    for contract in (candidate, base):
        index = next((index for index, rule in enumerate(contract.rules) if rule.id == rule_id), None)
        if index is None:
            places.append("/rules" if contract.rules else "")
            documents.append({})
        else:
            places.append(f"/rules/{index}")
            documents.append(_document(contract.rules[index]))
    after, before = documents
    names = dict.fromkeys([*after, *before])
    changed = [name for name in names if not equal_json(after.get(name), before.get(name))]
    if all(documents) and len(changed) == 1:
        name = changed[0]
        places = [
            f"{place}/{name}" if name in document else place
            for place, document in zip(places, documents, strict=True)
        ]
    return places[0], places[1]
