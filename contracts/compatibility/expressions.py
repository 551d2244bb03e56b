"""Comparison of CEL rules: whether other rules certainly refuse every record that one rule refuses.

An expression is true, false, unknown (a value is missing) or an error. A *term* is what is compared with constants: a
member of the record, `size(...)`, or any arithmetic. All values of a term between two neighbouring constants give the
same results for all comparisons, so the library evaluates one of them. Any other part may have any result, but the
same one wherever it occurs. All combinations of these results are tried. Source: cel-spec, "Logical Operators": `&&`
and `||` absorb errors of the other side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product
from math import prod
from typing import Any, Final

from tidegate.contracts.document.rule_model import Cel
from tidegate.contracts.document.times import NANOSECONDS
from tidegate.contracts.inclusion.json_schema.prover import Budget, BudgetSpentError
from tidegate.contracts.rules.cel import ExpressionResult, moment_of, outcome_of, roots_of, span_of, tree_of
from tidegate.contracts.rules.cel_syntax import Const, Fold, FunctionCall, ListLiteral, Node, Roots, Select
from tidegate.contracts.rules.cel_syntax import Const as Literal
from tidegate.contracts.rules.places import Path

_EXACT: Final = 2**53
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NAN: Final = "nan"
"""The type name of NaN, which JSON does not have."""
_NUMBER: Final = frozenset({"number"})
_WHOLE: Final = frozenset({"integer", "number"})
_NO_MEMBER: Final[frozenset[str]] = frozenset()


class Sort(Enum):
    """Kinds of comparable values; OTHER are booleans and null, which only equal themselves."""

    NUMBER = auto()
    STRING = auto()
    MOMENT = auto()
    SPAN = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of an expression: `key` orders the constants of one sort.

    `value` is passed to the CEL library in a variable, and `text` is the expression of the constant; in it, `{}` stands
    for the name of the variable.
    """

    sort: Sort
    key: Any
    value: Any
    text: str = "{}"


@dataclass(frozen=True, slots=True)
class TermValue:
    """A value of a term, passed to the CEL library like a constant; only members of one of `types` can hold it."""

    value: Any
    types: frozenset[str]
    text: str = "{}"


_OTHERS: Final = (
    TermValue(None, frozenset({"null"})),
    TermValue(True, frozenset({"boolean"})),
    TermValue(False, frozenset({"boolean"})),
    TermValue([], frozenset({"array"})),
    TermValue({}, frozenset({"object"})),
    TermValue(b"", frozenset({"bytes"})),
    TermValue(math.nan, frozenset({NAN})),
)


def constant_of(node: Node) -> Constant | None:
    """Return the constant of a node if its neighbouring values can be determined; None for any other node."""
    match node:
        case Const(bool() | None as value):
            return Constant(Sort.OTHER, None, value)
        case Const(int() | float() as value) if abs(value) < _EXACT:
            return Constant(Sort.NUMBER, Fraction(value), value)
        case Const(str(value)):
            return Constant(Sort.STRING, value, value)
        case FunctionCall("timestamp", (Const(str(value)),)) if (moment := moment_of(value)) is not None:
            return Constant(Sort.MOMENT, moment, value, "timestamp({})")
        case FunctionCall("duration", (Const(str(value)),)) if (span := span_of(value)) is not None:
            return Constant(Sort.SPAN, span, value, "duration({})")
        case _:
            return None


def values_between(constants: Iterable[Constant]) -> Iterator[TermValue]:
    """Yield a value for each constant, for each gap between neighbours and beyond, and one of every other type."""
    keys: dict[Sort, set[Any]] = {sort: set() for sort in Sort}
    for constant in constants:
        keys[constant.sort].add(constant.key)
    yield from _OTHERS
    yield from _numbers(sorted(keys[Sort.NUMBER] or {Fraction(0)}))
    texts = sorted(keys[Sort.STRING])
    # A text followed by "\0" is its direct successor, so one such value represents each gap.
    for text in dict.fromkeys(["", *texts, *(f"{each}\0" for each in texts)]):
        yield TermValue(text, frozenset({"string"}))
    for moment in _steps(keys[Sort.MOMENT]):
        yield TermValue(_moment_text(moment), _NO_MEMBER, "dyn(timestamp({}))")
    for span in _steps(keys[Sort.SPAN]):
        yield TermValue(_span_text(span), _NO_MEMBER, "dyn(duration({}))")


def _numbers(keys: list[Fraction]) -> Iterator[TermValue]:
    for key in keys:
        yield from _number(key)
    for low, high in pairwise(keys):
        middle = Fraction(float((low + high) / 2))
        for between in (middle, Fraction(math.floor(low) + 1)):
            if low < between < high:
                yield from _number(between)
    for edge in (Fraction(math.floor(keys[0]) - 1), Fraction(math.ceil(keys[-1]) + 1)):
        yield from _number(edge)
    for far in (-(2**63), 2**63, -1e300, 1e300):
        yield TermValue(far, _WHOLE)
    yield from (TermValue(-math.inf, _NUMBER), TermValue(math.inf, _NUMBER))


def _number(number: Fraction) -> Iterator[TermValue]:
    """Yield a number as each CEL type that can represent it: int, double, uint."""
    if number.denominator != 1:
        yield TermValue(float(number), _NUMBER)
        return
    yield from (TermValue(int(number), _WHOLE), TermValue(float(number), _WHOLE))
    if number >= 0:
        yield TermValue(int(number), _NO_MEMBER, "dyn(uint({}))")


def _steps(keys: set[int]) -> list[int]:
    return sorted({key + step for key in keys or {0} for step in (-1, 0, 1)})


def _moment_text(nanoseconds: int) -> str:
    seconds, fraction = divmod(nanoseconds, NANOSECONDS)
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction:09}Z"


def _span_text(nanoseconds: int) -> str:
    seconds, fraction = divmod(abs(nanoseconds), NANOSECONDS)
    return f"{'-' if nanoseconds < 0 else ''}{seconds}.{fraction:09}s"


MAX_CHOICES: Final = 4_000
"""Maximum combinations of answers that one proof examines; a fifth of a second."""
MAX_OTHERS: Final = 8
"""Maximum rules that are tried as a replacement of one rule, each alone and all together."""
MAX_STEPS: Final = 200_000
"""Maximum questions in all proofs of one direction, so that comparisons of long expressions end as undetermined."""
MAX_READ: Final = 1_000
"""Maximum rules of a contract that are parsed as replacements of one rule."""
_EXPRESSIONS_KEPT: Final = 2 * MAX_READ
"""Parsed expressions that are kept: each rule is compared with all others, so a smaller cache would never hit."""


@dataclass(frozen=True, slots=True)
class RecordMember:
    """A member of the record whose parents are all objects: its types, and whether it is always present."""

    types: frozenset[str]
    is_always_there: bool = False


Members = Callable[[Path], RecordMember | None]
"""Returns what is known about the member at a path of the compared records; None if nothing is."""

_TRUE, _FALSE, _UNKNOWN, _ERROR = 1, 2, 4, 8
"""Answers as bits; a set of possible answers is their union."""
_ANSWERS: Final = (_TRUE, _FALSE, _UNKNOWN, _ERROR)
_OF_OUTCOME: Final = {
    ExpressionResult.HOLDS: _TRUE,
    ExpressionResult.BROKEN: _FALSE,
    ExpressionResult.UNKNOWN: _UNKNOWN,
    ExpressionResult.ERROR: _ERROR,
    ExpressionResult.EXHAUSTED: _ERROR,
}
_COMPARISONS: Final = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">=", "_==_": "==", "_!=_": "!="}


@dataclass(frozen=True, slots=True)
class _Question:
    """A question about a term: a CEL condition on `x` and constants `c`; None asks whether the term is present."""

    condition: str | None
    constants: tuple[Constant, ...] = ()
    is_list: bool = False

    def answer(self, value: TermValue) -> int:
        """Return the answer bit for a value of the term, evaluated by the CEL library."""
        if self.condition is None:
            return _TRUE
        values = [constant.value for constant in self.constants]
        constants = values if self.is_list else values[0] if values else None
        condition = self.condition.replace("x", value.text.format("x"))
        outcome = outcome_of(condition, {"x": value.value, "c": constants, "this": {}})
        return _ERROR if outcome is None else _OF_OUTCOME[outcome]


_IS_THERE: Final = _Question(None)
_IS_TRUE: Final = _Question("x && true")


@dataclass(frozen=True, slots=True)
class _Term:
    """The subject of a question: a member of the record, by path, or any expression, by its tree.

    A term that `is_free` may give any answer to its only question.
    """

    path: Path
    node: Node
    is_free: bool = False


Answers = dict[tuple[_Term, _Question], int]
"""The possible answers to each question about a term, as bits."""
Evaluator = Callable[[Answers], int]
"""Returns the possible results of an expression, as bits."""


def refuses_as_much(
    rule: Cel, others: list[Cel], members: Members, budget: Budget | None = None, *, fits: bool = True
) -> bool:
    """Return whether every record that breaks a rule is proven to break one of `others`. False means unknown.

    `members` describes the compared records. With `fits` they are valid under their schema; without it they are
    invalid, and an error then breaks no rule. Only rules about the same field, or all about the whole record, are
    compared. A spent `budget` ends the proof with False; `members` may spend from it too.
    """
    try:
        spent = Budget(MAX_STEPS) if budget is None else budget
        return _refuses_as_much(rule, others, members, spent, fits=fits)
    except BudgetSpentError:
        return False


def _refuses_as_much(rule: Cel, others: list[Cel], members: Members, budget: Budget, *, fits: bool) -> bool:
    budget.spend(len(others) + 1)
    wanted = _read(rule)
    if wanted is None:
        return False
    near = [each for each in others if each.field == rule.field and not _lets_more_nulls_pass(each, rule)]
    read = [each for other in near[:MAX_READ] if (each := _read(other)) is not None]
    known = [each for each in read if each.terms & wanted.terms][:MAX_OTHERS]
    tried = [[each] for each in known] + ([known] if len(known) > 1 else [])
    pairs = product((_nothing, members), tried)
    return any(_proven(wanted, each, asked, budget, fits=fits) for asked, each in pairs)


def _lets_more_nulls_pass(one: Cel, other: Cel) -> bool:
    """Return whether a rule about a field lets it be missing, and another one does not."""
    return one.field is not None and one.nulls == "pass" and other.nulls == "violate"


def _nothing(_: Path) -> None:
    """Return None for every member: nothing is known, which is enough for most proofs."""


@dataclass(frozen=True, slots=True)
class _Expression:
    """A parsed CEL rule: its evaluator, the questions that it depends on, and their terms."""

    evaluate: Evaluator
    questions: frozenset[tuple[_Term, _Question]]
    roots: Roots
    breaks_unknown: bool
    terms: frozenset[_Term]

    def may_break(self, answers: Answers, *, fits: bool) -> bool:
        """Return whether some record with these answers may break the rule."""
        return bool(self.evaluate(answers) & self._breaking(fits=fits))

    def surely_breaks(self, answers: Answers, *, fits: bool) -> bool:
        """Return whether every record with these answers certainly breaks the rule."""
        return not self.evaluate(answers) & ~self._breaking(fits=fits)

    def _breaking(self, *, fits: bool) -> int:
        return _FALSE | (_ERROR if fits else 0) | (_UNKNOWN if self.breaks_unknown else 0)


def _proven(
    wanted: _Expression, known: list[_Expression], members: Members, budget: Budget, *, fits: bool
) -> bool:
    questions: dict[_Term, list[_Question]] = {}
    for expression in (wanted, *known):
        for term, question in expression.questions:
            if question not in questions.setdefault(term, []):
                questions[term].append(question)
    # If a parent of a member is null, the record is evaluated again without nulls, and `has` may give another answer.
    asks_presence = any(_IS_THERE in each for each in questions.values())
    astray = _UNKNOWN | _ERROR if asks_presence else _UNKNOWN
    choices: list[list[Answers]] = []
    for term, asked in questions.items():
        found: dict[tuple[int, ...], None] = {}
        for answers in _answers(term, asked, wanted.roots, members, astray):
            budget.spend(len(asked))
            found[answers] = None
        choices.append(
            [{(term, each): answer for each, answer in zip(asked, one, strict=True)} for one in found]
        )
        if prod(len(each) for each in choices) > MAX_CHOICES:
            return False
    steps = sum(len(each) for each in questions.values())
    for chosen in product(*choices):
        budget.spend(steps)
        chosen_answers = {key: answer for each in chosen for key, answer in each.items()}
        if wanted.may_break(chosen_answers, fits=fits) and not any(
            each.surely_breaks(chosen_answers, fits=fits) for each in known
        ):
            return False
    return True


def _answers(
    term: _Term, asked: list[_Question], roots: Roots, members: Members, astray: int
) -> Iterator[tuple[int, ...]]:
    """Yield the combinations of answers that a term may give to its questions, each in the order of `asked`.

    `astray` are the answers of a member that is unknown: the bits for a parent that is missing or null.
    """
    if term.is_free:
        yield from ((answer,) for answer in _ANSWERS)
        return
    is_value = bool(term.path) and term.path == roots.value
    known = members(term.path) if term.path else None
    for value in values_between(constant for question in asked for constant in question.constants):
        is_possible = bool(value.types if known is None else value.types & known.types)
        if (is_possible or not term.path) and not (is_value and value.value is None):
            yield tuple(question.answer(value) for question in asked)
    if is_value or (known is not None and known.is_always_there):
        return
    if term.path:  # the member is missing, but all of its parents are present
        yield tuple(_FALSE if question is _IS_THERE else _UNKNOWN for question in asked)
    if known is None:
        yield from (tuple(answer for _ in asked) for answer in (astray, _ERROR))
    elif len(term.path) > 1:
        yield tuple(_UNKNOWN for _ in asked)


@lru_cache(maxsize=_EXPRESSIONS_KEPT)
def _read(rule: Cel) -> _Expression | None:
    """Return the parsed expression of a rule; None if a part of it has no tree."""
    node, reader = tree_of(rule), _Reader(roots_of(rule))
    if not _is_known(node):
        return None
    evaluate = reader.read(node)
    # For a rule about a field, `nulls` decides about its absence, and `strict` about other missing values.
    unknown = rule.strict or (rule.field is None and rule.nulls == "violate")
    terms = frozenset(term for term, _ in reader.questions)
    return _Expression(evaluate, frozenset(reader.questions), roots_of(rule), unknown, terms)


def _is_known(node: Node) -> bool:
    match node:
        case None:
            return False
        case Select(operand):
            return _is_known(operand)
        case FunctionCall(_, parts) | ListLiteral(parts) | Fold(_, parts):
            return all(_is_known(part) for part in parts)
        case _:
            return True


class _Reader:
    """Compiles a tree into an evaluator and collects the questions that it depends on."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self.questions: list[tuple[_Term, _Question]] = []

    def read(self, node: Node) -> Evaluator:
        """Return the evaluator of a boolean expression."""
        match node:
            case Literal(bool(value)):
                return lambda _: _TRUE if value else _FALSE
            case FunctionCall("_&&_", (left, right)):
                return _both(self.read(left), self.read(right))
            case FunctionCall("_||_", (left, right)):
                return _not(_both(_not(self.read(left)), _not(self.read(right))))
            case FunctionCall("!_", (operand,)):
                return _not(self.read(operand))
            case FunctionCall("_?_:_", (condition, one, other)):
                return _chosen(self.read(condition), self.read(one), self.read(other))
        return self._question(node)

    def _question(self, node: Node) -> Evaluator:
        match node:
            case Select(operand, field, True) if (holder := self._roots.path(operand)) is not None:
                return self._ask(_Term((*holder, field), None), _IS_THERE)
            case FunctionCall(name, (left, right)) if name in _COMPARISONS:
                if (constant := constant_of(right)) is not None:
                    condition = f"x {_COMPARISONS[name]} {constant.text.format('c')}"
                    return self._ask(self._term(left), _Question(condition, (constant,)))
                if (constant := constant_of(left)) is not None:
                    condition = f"{constant.text.format('c')} {_COMPARISONS[name]} x"
                    return self._ask(self._term(right), _Question(condition, (constant,)))
            case FunctionCall("@in", (item, ListLiteral(listed))):
                constants = [constant_of(each) for each in listed]
                plain = tuple(each for each in constants if each is not None and each.text == "{}")
                if len(plain) == len(listed):
                    return self._ask(self._term(item), _Question("x in c", plain, is_list=True))
        if self._roots.path(node):
            return self._ask(self._term(node), _IS_TRUE)
        return self._ask(_Term((), node, is_free=True), _IS_TRUE)

    def _term(self, node: Node) -> _Term:
        path = self._roots.path(node)
        return _Term(path, None) if path else _Term((), node)

    def _ask(self, term: _Term, question: _Question) -> Evaluator:
        key = (term, question)
        self.questions.append(key)
        return lambda answers: answers[key]


def _both(one: Evaluator, other: Evaluator) -> Evaluator:
    return lambda answers: _joined(one(answers), other(answers))


def _not(one: Evaluator) -> Evaluator:
    return lambda answers: _inverse(one(answers))


def _chosen(condition: Evaluator, one: Evaluator, other: Evaluator) -> Evaluator:
    def choose(answers: Answers) -> int:
        of = condition(answers)
        chosen = (one(answers) if of & _TRUE else 0) | (other(answers) if of & _FALSE else 0)
        return chosen | of & (_UNKNOWN | _ERROR)

    return choose


@lru_cache(maxsize=256)
def _joined(one: int, other: int) -> int:
    """Return the possible results of `&&` for those of its sides.

    If neither side is false, unknown and error may both result, because the specification leaves the choice open.
    """
    found = 0
    for left, right in product(_ANSWERS, _ANSWERS):
        if one & left and other & right:
            both = left | right
            found |= _FALSE if both & _FALSE else both & ~_TRUE or _TRUE
    return found


def _inverse(answers: int) -> int:
    truths = answers & (_TRUE | _FALSE)
    return answers ^ truths | (_FALSE if truths & _TRUE else 0) | (_TRUE if truths & _FALSE else 0)
