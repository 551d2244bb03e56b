"""Conditions as producers write them into rule sets, with the records that they are asked about.

They have the forms that README.md counts. Each is a condition on the field's name, type or record, alone or before
transformations of other fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tests.conformance.confluent_conditions.records import ORDER, ORDERS, READING, READINGS

JSON, AVRO = "JSON", "AVRO"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition, and the transformations that follow it in its rule set."""

    expr: str
    type: str = "CEL"
    format: str = JSON
    tags: tuple[str, ...] = ()
    later: tuple[dict[str, Any], ...] = field(default=())

    @property
    def rule(self) -> dict[str, Any]:
        """The condition as a rule set has it."""
        rule = {"name": "asked", "kind": "CONDITION", "mode": "WRITE", "type": self.type, "expr": self.expr}
        return {**rule, "tags": list(self.tags)} if self.tags else rule

    @property
    def schema(self) -> dict[str, Any]:
        """The schema of its records."""
        return ORDER if self.format == JSON else READING

    @property
    def records(self) -> tuple[dict[str, Any], ...]:
        """The records that it is asked about.

        Clients refuse a record with a false in a field without the tags of a rule, which test_conditions.py has apart.
        """
        records = ORDERS if self.format == JSON else READINGS
        return tuple(each for each in records if not self.tags or each.get("paid") is not False)

    @property
    def name(self) -> str:
        """What tells a condition from the others."""
        later = " ".join(rule["expr"] for rule in self.later)
        return f"{self.format} {self.type} {self.expr}{' | ' if later else ''}{later}"


def _of(text: str, **more: Any) -> tuple[Condition, ...]:
    return tuple(Condition(line.strip(), **more) for line in text.strip().splitlines())


def _transform(expr: str, tags: tuple[str, ...] = ()) -> dict[str, Any]:
    rule = {"name": "later", "kind": "TRANSFORM", "mode": "WRITE", "type": "CEL_FIELD", "expr": expr}
    return {**rule, "tags": list(tags)} if tags else rule


_MESSAGES = _of(r"""
    message.status == 'OPEN'
    message.status != 'CANCELLED'
    message.id != ''
    message.currency == "EUR"
    message.amount > 0.0
    message.amount > 0
    message.amount >= 0.0 && message.amount < 10000.0
    message.amount < 100000.0
    message.quantity > 0
    message.quantity >= 1 && message.quantity <= 1000
    message.quantity != 0
    message.quantity == 2 || message.quantity == 3
    message.quantity > 0 && message.amount > 0.0
    message.amount > -1
    message.paid
    !message.paid
    message.paid == true
    message.paid != true
    message.paid && message.amount > 50.0
    message.paid || message.status == 'OPEN'
    size(message.id) > 3
    size(message.currency) == 3
    size(message.id) == 10
    message.id.size() > 0
    size(message.labels) > 0
    size(message.labels) > 1
    size(message.lines) >= 1
    size(message.scores) < 3
    message.labels.size() == 2
    message.currency in ['USD', 'EUR', 'GBP']
    message.status in ["OPEN", "SHIPPED"]
    !(message.status in ['CANCELLED', 'REFUNDED'])
    message.quantity in [1, 2, 3]
    'gift' in message.labels
    !('fragile' in message.labels)
    message.id.startsWith('ORD-')
    message.id.endsWith('3')
    message.email.contains('@')
    !message.status.contains('CANCEL')
    message.id.matches('^ORD-[0-9]{6}$')
    message.id.matches(r'^[A-Z]{3}-\d{6}$')
    message.currency.matches('^[A-Z]{3}$')
    message.email.matches('^[a-zA-Z0-9+_.-]+@[a-zA-Z0-9.-]+$')
    message.address.country.matches(r'^[A-Z]{2}$')
    message.address.zip.matches("^[0-9]{5}(-[0-9]{4})?$")
    matches(message.id, '[0-9]')
    message.phone.matches('^\\+[0-9 ]+$')
    has(message.note)
    has(message.amount)
    !has(message.paid)
    has(message.address.zip)
    has(message.address) && has(message.address.country)
    has(message.amount) && message.amount > 0.0
    !has(message.note) || message.note != ''
    message.note == null || message.note != ''
    message.note != null
    has(message.note) ; message.note != null
    has(message.amount) ; message.amount > 0.0
    has(message.currency); message.currency.matches(r'^[A-Z]{3}$')
    message.status == 'OPEN' ; message.quantity > 2
    message.quantity > 10 ; message.amount > 1000.0
    message.status == "CANCELLED" ; message.quantity == 1
    message.address.country == 'DE' ; size(message.address.zip) == 4
    ; message.status == 'OPEN'
    message.currency == "EUR" ? message.amount < 50.0 : true
    message.currency == 'USD' ? size(message.id) == 10 : message.quantity > 1
    message.paid ? message.amount > 100.0 : message.status != 'SHIPPED'
    has(message.phone) ? size(message.phone) > 5 : false
    message.quantity % 2 == 0
    message.quantity + 1 > 3
    message.quantity * 2 - 1 == 3
    message.quantity / 2 == 1
    message.amount * 2.0 > 100.0
    message.id + message.status == 'ORD-000123OPEN'
    message.status < 'P'
    message.status >= message.currency
    message.labels[0] == 'gift'
    message.scores[0] > 0
    message['status'] == 'OPEN'
    message.address['country'] == 'DE'
    'zip' in message.address
    message.labels.all(x, x != '')
    message.labels.exists(x, x == 'gift')
    message.labels.exists_one(x, x == 'gift')
    message.scores.all(s, s > 0)
    message.scores.exists(s, s > 4 && s < 9)
    size(message.scores.filter(s, s > 2)) == 3
    message.scores.map(s, s + 1) == [1]
    message.lines.all(line, line.count > 0)
    message.lines.all(line, line.sku.matches('^[A-Z]-[0-9]$'))
    message.lines.exists(line, line.sku == 'B-2')
    message.lines.all(line, has(line.price))
    size(message.lines.filter(line, line.count > 1)) == 1
    message.lines.all(line, line.price > 0.0 && line.count < 100)
    message.address.floor >= 0
    message.address.floor > 0 || message.address.country == 'US'
    timestamp(message.ordered) > timestamp('2020-01-01T00:00:00Z')
    timestamp(message.ordered) == timestamp('2026-03-01T10:00:00Z')
    timestamp(message.ordered).getFullYear() == 2026
    string(message.quantity) == '2'
    double(message.quantity) > 1.5
    int(message.amount) == 99
    type(message.quantity) == int && message.quantity > 0
    size(message) > 5
    message.email.isEmail()
    isEmail(message.email)
    message.email.isEmail() || message.email == ''
    has(message.email) ; message.email.isEmail()
    !message.email.isEmail()
    message.ipv4.isIpv4()
    message.ipv6.isIpv6()
    message.ipv4.isIpv4() || message.ipv6.isIpv4()
    message.host.isHostname()
    message.host.isHostname() && message.host.contains('.')
    message.link.isUri()
    message.link.isUri() || message.reference.isUri()
    message.reference.isUriRef()
    message.trace.isUuid()
    message.labels.all(x, x.isHostname())
""")

_FIELDS = _of(
    r"""
    typeName == 'STRING' ; value != ''
    typeName == 'STRING' ; size(value) < 30
    typeName == 'STRING'; value.matches(r'^[^?]*$')
    typeName == 'INT' ; value >= 0
    typeName == 'DOUBLE' ; value >= 0.0
    typeName == 'BOOLEAN' ; value
    typeName != 'STRING' || value != ''
    name == 'id' ; value.matches('^ORD-[0-9]{6}$')
    name == 'status' ; value in ['OPEN', 'SHIPPED']
    name == 'currency' ; size(value) == 3
    name == 'quantity' ; value > 0 && value < 1000
    name == 'sku' ; value != ''
    name == 'country' ; value.matches('^[A-Z]{2}$')
    name == 'id' && value == '' ; false
    name == 'email' ; value.isEmail()
    name == 'trace' ; value.isUuid()
    fullName == '$.status' ; value == 'OPEN'
    fullName == '$.address.country' ; size(value) == 2
    name == 'status' ; value == 'OPEN' && message.quantity > 2
    name == 'count' ; value > 0 && has(message.price)
    name == 'zip' || name == 'phone' ; value != ''
    size(tags) == 0 || value != ''
    'PII' in tags ; size(value) > 3
    name == "note" ; value != "" && value != "x"
    name == 'amount' ; value > 0.0 ? value < 10000.0 : false
    """,
    type="CEL_FIELD",
)

_TAGGED = _of(
    """
    value != '0301234'
    size(value) > 10
    value.contains('@') || value.startsWith('+')
    """,
    type="CEL_FIELD",
    tags=("PII",),
)

_AVRO = _of(
    r"""
    message.sensor == "sensor_1"
    message.sensor != ''
    message.sensor.matches('^sensor_[0-9]+$')
    message.value > -273.15
    message.value >= 0.0 && message.value < 100.0
    message.count > 0
    message.ticks > 0
    message.ticks >= 4294967296
    message.ok
    message.unit != null
    message.unit == null || message.unit == 'C'
    has(message.unit) && message.unit != ''
    message.site.level >= 0
    message.site.code.matches('^[A-Z]{3}-[0-9]{1,2}$')
    size(message.labels) > 1
    message.labels.all(x, size(x) > 0)
    'hall' in message.labels
    message.count > 100 ; message.value > 0.0
    message.operator.isEmail()
    message.ok ? message.count > 10 : message.value < 0.0
    message.count % 2 == 0 && message.count > 0
    """,
    format=AVRO,
) + _of(
    """
    typeName == 'STRING' ; value != ''
    typeName == 'INT' ; value >= 0
    name == 'code' ; value.startsWith('BER')
    fullName == 'plant.Reading.sensor' ; value == 'sensor_1'
    name == 'unit' ; value != null
    name == 'value' ; value > 0.0
    """,
    type="CEL_FIELD",
    format=AVRO,
)

_PREFIX = _transform("name == 'id' ; 'id-' + value")
_MASK = _transform("typeName == 'STRING' ; '***'", ("PII",))
_BEFORE = (
    Condition("size(message.lines) > 1", later=(_PREFIX,)),
    Condition("size(message.labels) > 1", later=(_PREFIX,)),
    Condition("message.amount > 0.0", later=(_PREFIX, _MASK)),
    Condition("message.status == 'OPEN'", later=(_transform("name == 'currency' ; 'EUR'"),)),
    Condition("message.status == 'OPEN'", later=(_transform("fullName == '$.address.zip' ; '0'"),)),
    Condition("message.address.country == 'DE'", later=(_transform("fullName == '$.address.zip' ; '0'"),)),
    Condition("message.quantity > 1", later=(_transform("typeName == 'STRING' ; value + '!'"),)),
    Condition("message.quantity > 1", later=(_transform("name == 'status' && value == 'OPEN' ; 'NEW'"),)),
    Condition(
        "name == 'status' ; value == 'OPEN'", "CEL_FIELD", later=(_transform("name == 'id' ; value + 'x'"),)
    ),
    Condition(
        "typeName == 'INT' ; value >= 0", "CEL_FIELD", later=(_transform("typeName == 'STRING' ; 'x'"),)
    ),
    Condition("message.count > 3", format=AVRO, later=(_transform("name == 'sensor' ; value + '-a'"),)),
    Condition("size(message.labels) > 1", format=AVRO, later=(_transform("name == 'code' ; 'X'"),)),
    # These are not judged: the transformation changes what they read.
    Condition("message.id.startsWith('ORD-')", later=(_PREFIX,)),
    Condition("message.labels.all(x, x != '')", later=(_transform("typeName == 'STRING' ; value + '!'"),)),
    Condition("message.note != null", later=(_transform("value == null ; 'none'"),)),
)

CONDITIONS: Final = (*_MESSAGES, *_FIELDS, *_TAGGED, *_AVRO, *_BEFORE)

STRING_FUNCTIONS: Final = _of(r"""
    message.currency.upperAscii() == 'EUR'
    message.status.lowerAscii() == 'open'
    message.status.upperAscii() in ['OPEN', 'SHIPPED']
    message.labels.all(x, x.lowerAscii() == x)
    message.phone.trim() != ''
    message.phone.trim().startsWith('0')
    message.id.substring(0, 4) == 'ORD-'
    message.id.substring(4).matches('^[0-9]+$')
    message.id.substring(4, 3) != '' || message.quantity == 0
    message.phone.replace(' ', '') == '+49301234567'
    size(message.phone.replace('0', '')) < 6
    message.email.indexOf('@') > 0
    message.id.indexOf('ORD') == -1
    message.phone.indexOf('') == 0
    message.email.split('@')[1] == 'example.com'
    size(message.id.split('-')) == 2
    message.labels.join(',') == 'gift,fragile'
    message.labels.join() != ''
    message.id.lowerAscii().split('-').filter(w, w != '').join('') == 'ord000123'
    message.email.substring(message.email.indexOf('@') + 1).contains('.')
    message.scores.join() == ''
    has(message.host) ; message.host.split('.').all(part, size(part.trim()) > 3)
""")
"""What the Python client does not have: the recorded verdicts are those of the JavaScript client."""
