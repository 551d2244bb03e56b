"""A secret among the arguments is refused before anything else is done, by every verb."""

from __future__ import annotations

import pytest

from tidegate.gateway.cli.main import main
from tidegate.gateway.cli.verbs import VERBS
from tidegate.gateway.exits import ExitCode

USER = "TIDEGATE_REGISTRY_USER"


@pytest.mark.parametrize(
    ("arguments", "variable"),
    [
        (["--database-url", "postgresql://u:s3cr3t@db/registry"], "TIDEGATE_DATABASE_URL"),
        (["--database-url=postgresql+psycopg://u:s3cr3t@db/registry"], "TIDEGATE_DATABASE_URL"),
        (["--database-url", "postgresql://u:s3cr3t/?#@db/registry"], "TIDEGATE_DATABASE_URL"),
        (["--database-url", "postgresql://db/registry?user=u&password=s3cr3t"], "TIDEGATE_DATABASE_URL"),
        (["--registry", "https://id:s3cr3t@registry:8081"], USER),
        (["--against=https://id:s3cr3t@registry"], USER),
        (["jdbc:postgresql://db/lake?user=u&password=s3cr3t"], "the variable TIDEGATE_"),
        (["--registry", "https://s3cr3t@registry:8081"], USER),
        (["--registry=HTTPS://s3cr3t@registry"], USER),
        (["https://s3cr3t:@registry"], "the variable TIDEGATE_"),
        (["https://store/file?sv=1&sig=s3cr3t"], "the variable TIDEGATE_"),
        (["https://store/file?X-Amz-Credential=s3cr3t"], "the variable TIDEGATE_"),
        (["https://registry/?api_key=s3cr3t"], "the variable TIDEGATE_"),
    ],
)
@pytest.mark.parametrize("verb", ["serve", "enforce", "keys", "publish"])
def test_a_password_is_refused_and_the_variable_is_named(
    verb: str, arguments: list[str], variable: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([verb, *arguments])
    said = " ".join(capsys.readouterr().err.split())
    assert ended.value.code == ExitCode.USAGE
    assert f"set {variable}" in said
    assert "list of processes" in said
    assert "s3cr3t" not in said


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:////var/lib/tidegate/registry.db",
        "postgresql://u@db:5432/registry",
        "postgresql://db:5432/registry?options=a@b",
        "postgresql:///registry?host=/run/postgresql&user=tidegate",
        "http://registry:8081/path@x",
        "https://registry?next=a@b",
        "https://registry/?key=subject&page_token_size",
        "git:origin/main",
    ],
)
@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_addresses_without_a_password_pass(
    verb: str, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([verb, "--help", "--database-url", address, address])
    assert "list of processes" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "variable", "value", "code"),
    [
        (["approve", "a.b"], "TIDEGATE_REGISTRY_URL", "http://s3cr3t@127.0.0.1:9", ExitCode.UNAVAILABLE),
        (["approve", "a.b"], "TIDEGATE_REGISTRY_URL", "ftp://u:s3cr3t@127.0.0.1:9", ExitCode.USAGE),
        (["keys", "list"], "TIDEGATE_DATABASE_URL", "postgresql://u@h:s3cr3t/d", ExitCode.USAGE),
        (["keys", "list"], "TIDEGATE_DATABASE_URL", "postgres//u:s3cr3t@h/d", ExitCode.USAGE),
        (
            ["reconcile", "a.b", "--bootstrap-servers", "h:9", "--warehouse", "w"],
            "TIDEGATE_CATALOG_PROPERTIES",
            '{"credential": "s3cr3t"',
            ExitCode.USAGE,
        ),
    ],
)
def test_no_message_repeats_a_secret_of_a_variable(
    arguments: list[str],
    variable: str,
    value: str,
    code: ExitCode,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    told = capsys.readouterr()
    assert "s3cr3t" not in told.out + told.err
    assert ended.value.code == code, told.err
