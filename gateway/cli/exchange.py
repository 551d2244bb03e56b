"""`tidegate import` and `tidegate export`: convert contracts from and to other formats."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from ruamel.yaml import YAML

from tidegate.contracts.document.load import read_source
from tidegate.contracts.document.model import DataContract
from tidegate.contracts.document.source import SourceDocument
from tidegate.contracts.errors import ContractError, Problem, SettingsError
from tidegate.contracts.exchange.imported import Imported
from tidegate.contracts.exchange.odcs import write_odcs
from tidegate.contracts.exchange.read import fitting, located, read_foreign
from tidegate.contracts.lint.lint import lint
from tidegate.contracts.words import seen
from tidegate.gateway.cli.options import ContractFile
from tidegate.gateway.cli.terminal import err, show_left_out
from tidegate.gateway.client.subjects import SubjectClient
from tidegate.gateway.registry.schemas.imported_subject import import_subject

ForeignFile = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="Document of another format, YAML or JSON; or the address of a schema registry."
    ),
]
Subject = Annotated[
    str | None, typer.Option("--subject", metavar="NAME", help="Subject to import from a schema registry.")
]
Chosen = Annotated[
    str | None,
    typer.Option("--object", metavar="NAME", help="Object or model to import, if the document has several."),
]
Id = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="Id of the contract, instead of the document's.")
]
Topic = Annotated[
    str | None,
    typer.Option("--topic", metavar="TOPIC", help="Topic of the contract, instead of the document's."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        dir_okay=False,
        help="File to write, which must not exist; else standard output.",
    ),
]


class Target(StrEnum):
    """The formats of `tidegate export`."""

    ODCS = "odcs"
    SCHEMA = "schema"


_ADDRESS = re.compile("https?://")
To = Annotated[Target, typer.Option("--to", help="Format to write.")]


def import_(
    file: ForeignFile,
    *,
    chosen: Chosen = None,
    subject: Subject = None,
    id_: Id = None,
    topic: Topic = None,
    out: Out = None,
) -> None:
    """Make a contract from a document of another format.

    Reads the Open Data Contract Standard (3.0 to 3.2), the Data Contract
    Specification, models of dbt (schema.yml), JSON Schemas, Avro schemas and
    suites of Great Expectations. Prints the contract as YAML. What it cannot
    express is listed on standard error with its place in the document, and as
    comments in the contract.

    From a schema registry (Confluent's API) it reads the newest version of a
    subject: schema and references, rules, tags and compatibility level.

    From the Open Data Contract Standard nothing is lost: parts that are not used
    are kept in the contract, and `tidegate export` writes them again.

    Examples:
      tidegate import orders.odcs.yaml --out contract.yaml
      tidegate import schema.yml --object orders --topic shop.orders
      tidegate import http://registry:8081 --subject shop.orders-value

    Exit codes: 0 imported, perhaps with parts left out; 1 the document has
    mistakes; 2 usage, or the file to write exists; 3 the registry does not
    answer; 7 the credentials are rejected.
    """
    source = None if _ADDRESS.match(file) else _source(file, subject)
    imported = _of_registry(file, subject) if source is None else read_foreign(source, chosen)
    named = {name: value for name, value in (("id", id_), ("topic", topic)) if value}
    try:
        # Parsed again, because `lint` and `publish` will parse the printed text.
        imported, _ = fitting(replace(imported, document=imported.document | named), "contract.yaml", _yaml)
    except ContractError as error:
        raise error if source is None else located(error, source) from None
    _write(_as_yaml(imported), out)
    show_left_out(imported.left_out)


def _source(file: str, subject: str | None) -> SourceDocument:
    if subject is not None:
        raise SettingsError(f"--subject is of a schema registry, and {file} is not the address of one")
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise SettingsError(f"cannot read {file}: {error.strerror}") from None
    return read_source(file, content)


def _of_registry(url: str, subject: str | None) -> Imported:
    if subject is None:
        raise SettingsError("name the subject of the registry: --subject")
    with SubjectClient(url) as client:
        found = client.newest(subject)
    try:
        return import_subject(subject, found.entry, found.referred, found.config)
    except ContractError as error:
        place = f"{url.rstrip('/')}/subjects/{subject}"
        raise ContractError(
            tuple(Problem("", f"{each.pointer}: {each.message}", place) for each in error.problems)
        ) from None


def export(contract: ContractFile, to: To = Target.ODCS, out: Out = None) -> None:
    """Write a contract in another format.

    odcs writes a document of the Open Data Contract Standard. Parts of a
    contract that the standard has no word for are in its custom properties, and
    rules are quality rules of the engine `tidegate`: `tidegate import` reads all
    of them. schema writes the JSON Schema or the Avro schema alone.
    `tidegate suite` writes the expectations for Great Expectations.

    Examples:
      tidegate export contract.yaml > contract.odcs.yaml
      tidegate export contract.yaml --to schema --out orders.schema.json

    Exit codes: 0 written; 1 the contract has mistakes; 2 usage, or the file to
    write exists.
    """
    _write(_WRITERS[to](lint(contract).contract), out)


def _odcs(contract: DataContract) -> str:
    return _yaml(write_odcs(contract))


def _schema(contract: DataContract) -> str:
    return json.dumps(contract.schema_.definition, ensure_ascii=False, indent=2) + "\n"


_WRITERS: dict[Target, Callable[[DataContract], str]] = {
    Target.ODCS: _odcs,
    Target.SCHEMA: _schema,
}


def _as_yaml(imported: Imported) -> str:
    notes = "".join(
        f"# Not judged: {str(each).encode('unicode_escape').decode()}\n" for each in imported.left_out
    )
    return notes + _yaml(imported.document)


def _yaml(document: dict[str, Any]) -> str:
    writer = YAML()
    writer.width = 110
    writer.representer.add_representer(
        type(None), lambda representer, _: representer.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    writer.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    writer.dump(document, text)
    return text.getvalue()


def _write(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())  # UTF-8 also if the terminal has another encoding
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SettingsError(f"{out} exists; choose another name, or move it away") from None
    except OSError as error:
        raise SettingsError(f"cannot write {out}: {error.strerror}") from None
    err.print(f"wrote {seen(str(out))}")
