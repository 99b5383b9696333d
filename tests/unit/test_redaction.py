"""Output, errors, logs and stored bytes do not contain credentials."""

from __future__ import annotations

import io
import json
import logging
import pickle
import queue
import time
import traceback
from logging.handlers import QueueHandler
from urllib.parse import quote, quote_plus

import pytest

import splitlib
from splitlib.errors import error_context
from splitlib.model import DeleteFile
from splitlib.redaction import (
    get_logger,
    redact,
    redact_causes,
    redact_path,
    remember,
    without_credentials,
    without_login,
)
from splitlib.registry import named_catalogs
from splitlib.spark.read.reader import TableReader
from tests.support.memory_connector import MemoryConnector, enumerator_of

SECRET = "pl4nted"


@pytest.mark.parametrize(
    "text",
    [
        f"s3://user:{SECRET}@bucket/t",
        f"s3://user:{SECRET}/{SECRET}@bucket/t",
        f"s3://user:a@{SECRET}@bucket/t",
        f"thrift://h:9083,thrift://me:{SECRET}@h:9083",
        f"user:{SECRET}@host/db",
        f"user:{SECRET}/{SECRET}@host:9083/db",
        f"jdbc:postgresql://user:{SECRET}@host/db",
        f"abfss://user:{SECRET}@account.dfs.core.windows.net/t",
        f"https://{SECRET}@host/t",
        f"https://h/t?sig={SECRET}",
        f"https://h/t?a=1&password={SECRET}&b=2",
        f"https://h/t?token={SECRET}#f",
        f"https://h/t?X-Amz-Signature={SECRET}&X-Amz-Credential={SECRET}%2F2024",
        f"https://h/t?AWSAccessKeyId={SECRET}&access_key={SECRET}&secret={SECRET}",
        f"Endpoint=x;SharedAccessKey={SECRET}",
        f"SharedAccessSignature=sv=2020&sig={SECRET}",
        f"AccountName=x;AccountKey={SECRET};",
    ],
)
def test_credentials_by_their_form(text):
    assert SECRET not in without_credentials(text)
    assert SECRET not in without_credentials(f"cannot open '{text}' now")


@pytest.mark.parametrize(
    "text",
    [
        "abfss://container@account.dfs.core.windows.net/t",
        "hdfs://nn:8020/user/a@b/t",
        "/data/key=5/a@b/c.parquet",
        "s3://bucket/a@b/token=5/x:y@z",
        "file:/a/b@c",
        "ns.table@branch",
        "day=2024-01-05 12:30:00",
        "db.table",
    ],
)
def test_what_is_no_credential_stays(text):
    assert without_credentials(text) == text


def test_a_login_is_no_part_of_the_identity_of_a_file():
    assert without_login("s3://me:pw@b/x") == without_login("s3://me:new@b/x") == "s3://b/x"
    for path in ("abfss://a@b/x", "/t/f?key=1", "hdfs://nn:8020/a@b/x", "/a/s3://u:p@x"):
        assert without_login(path) == path


def test_what_was_passed_as_a_secret_is_known_from_then_on():
    assert redact("no wh1sper here") == "no wh1sper here"
    remember("db.t", {"storage_options": {"key": "wh1sper", "anon": "plain-value", "secret": "x"}})
    assert redact("no wh1sper here, a plain-value x") == "no *** here, a plain-value x"
    remember("db.t", {"uri": "thrift://me:wh1sper-long@h"})
    assert redact("wrong: wh1sper-long") == "wrong: ***", "not what is left after the shorter one"


def test_names_of_methods_are_no_secrets():
    remember("gs://b/t", {"storage_options": {"token": "anon"}})
    assert redact("canonical_values is not an option") == "canonical_values is not an option"


@pytest.mark.parametrize(
    "secret", ["hidd3n-word\n", "hidd3n 'word'", "hidd3n\tw\xf6rd", "hidd3n/w+="]
)
def test_messages_may_spell_a_secret_with_escapes(secret):
    remember("db.t", {"token": secret})
    stripped = secret.strip()
    for text in (
        stripped,
        repr(secret),
        repr(f"Bearer {secret}"),
        ascii(secret),
        quote(stripped, ""),
        quote(stripped),
        quote_plus(stripped),
        quote(stripped, "").lower(),
        json.dumps({"token": stripped}),
        json.dumps({"token": stripped}, ensure_ascii=False),
    ):
        assert "hidd3n" not in redact(f"Invalid value {text}"), text


def test_secrets_inside_other_values():
    uri = "https://user:hidd3n%40four@host/t"
    remember("db.t", {"auth": ("user", "hidd3n-one"), "secret": b"hidd3n-two", "uri": uri})
    remember("db.t", {"credential": "client:hidd3n-three"})
    for text in ("hidd3n-one", "hidd3n-two", "client_secret hidd3n-three", "hidd3n@four"):
        assert "hidd3n" not in redact(f"Invalid value {text}"), text


def test_groups_of_errors_and_notes():
    remember("db.t", {"secret": "hidd3n-five"})
    part = OSError("refused")
    part.__cause__ = ValueError("wrong: hidd3n-five")
    error = splitlib.SourceError("failed")
    error.add_note("with hidd3n-five")
    error.__cause__ = ExceptionGroup("several", [part, KeyError("x"), ValueError("hidd3n-five")])
    redact_causes(error)
    text = "".join(traceback.format_exception(error))
    assert "hidd3n" not in text
    assert text.count("***") == 3
    assert "KeyError: 'x'" in text


def test_settings():
    shown = repr(splitlib.SplitConfig(statistics_location="s3://me:hidd3n-six@bucket/x"))
    assert "statistics_location='s3://***@bucket/x'" in shown


def fail(name):
    raise OSError(f"inside: {name}")


class Failing(MemoryConnector):
    """A connector that cannot be opened. Its error contains the options."""

    @classmethod
    def open(cls, name, options):
        try:
            try:
                fail(name)
            except OSError as error:
                raise ValueError(f"options {options} of {name}") from error
        except ValueError as error:
            if options.get("declared"):
                raise splitlib.SourceError(f"no {name}", hint=f"try {name}") from error
            raise


def everything_of(error: BaseException) -> str:
    return "".join(
        [
            repr(error),
            str(error),
            repr(getattr(error, "__dict__", "")),
            *traceback.format_exception(error),
            pickle.dumps(error).decode("latin-1"),
        ]
    )


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        (f"s3://user:{SECRET}/{SECRET}@bucket/t", {}),
        (f"https://h/t?sig={SECRET}", {}),
        ("db.t", {"storage_options": {"secret": SECRET}}),
        ("db.t", {"uri": f"thrift://me:{SECRET}@h:9083"}),
        ("db.t", {"s3.secret-access-key": SECRET}),
    ],
)
def test_errors_and_what_they_were_raised_from(name, options, declared):
    splitlib.register("failing-to-open", Failing)
    with pytest.raises(splitlib.SplitlibError) as caught:
        splitlib.load_table(name, "failing-to-open", declared=declared, **options)
    error = caught.value
    text = everything_of(error)
    assert SECRET not in text
    # The error still has its type, its location and its cause.
    cause = error.__cause__
    assert cause is not None
    assert type(cause).__name__ == "ValueError"
    assert type(cause.__cause__).__name__ == "OSError"
    assert "raise ValueError(" in text
    assert "in open" in text


def test_a_cause_that_tells_nothing_is_kept():
    raised = KeyError("no")
    with pytest.raises(splitlib.SourceError) as caught, error_context(connector="c"):
        raise raised
    assert caught.value.__cause__ is raised


def test_what_is_set_later_is_redacted_too():
    error = splitlib.SourceError("x")
    error.table = f"s3://user:{SECRET}@b/t"
    error.partition = error.hint = f"https://h/t?sig={SECRET}"
    with (
        error_context(connector="c"),
        pytest.raises(splitlib.SourceError),
    ):
        raise error
    assert SECRET not in everything_of(error)


def test_logs():
    log = get_logger("splitlib.of_this_test.module")
    assert get_logger("splitlib.of_this_test.module").filters == log.filters
    # pytest's handler is not sufficient. With PySpark's loggers, its format has no causes.
    written, records = io.StringIO(), queue.SimpleQueue[logging.LogRecord]()
    handlers = logging.StreamHandler(written), QueueHandler(records)
    for handler in handlers:
        log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        fail(f"s3://user:{SECRET}@b/t")
    except OSError:
        log.debug("Of %s.", f"https://h/t?sig={SECRET}", exc_info=True)
    finally:
        for handler in handlers:
            log.removeHandler(handler)
    assert SECRET not in written.getvalue()
    assert "OSError: inside: s3://***@b/t" in written.getvalue()
    assert SECRET not in str(vars(records.get_nowait()))


def test_every_logger_of_splitlib_is_redacting():
    import splitlib.spark.planner.optimize
    import splitlib.spark.planner.scan_sites.prunable  # noqa: F401

    loggers = [
        logger
        for name, logger in logging.Logger.manager.loggerDict.items()
        if name.startswith("splitlib.") and isinstance(logger, logging.Logger)
    ]
    assert loggers
    assert [logger.name for logger in loggers if not logger.filters] == []


def test_representations():
    uri = f"s3://user:{SECRET}@bucket/t"
    reader = TableReader(None).table(uri, "files", storage_options={"secret": SECRET}, other="x")  # type: ignore[arg-type]
    assert (
        repr(reader)
        == "TableReader('s3://***@bucket/t', connector='files', options=[other, storage_options])"
    )
    plan = pytest.importorskip("splitlib.spark.datasource.plan", exc_type=ImportError)
    options = plan.ReadOptions.parse({"table": uri, "storage.secret": SECRET, "uri": uri})
    assert SECRET not in repr(options)
    assert options.table == uri
    delete = DeleteFile("vector", uri, 1, "puffin")
    assert SECRET not in repr(delete)
    assert repr(delete).startswith("DeleteFile(kind='vector', path='s3://***@bucket/t', size=1")


# --- Catalogs from a file.


def test_catalogs_from_a_file(tmp_path):
    toml, other = tmp_path / "catalogs.toml", tmp_path / "catalogs.json"
    toml.write_text(
        '[lake]\nuri = "file"\ntoken = "t"\n"s3.region" = "r"\n[lake.storage_options]\nkey = "k"'
    )
    named = named_catalogs(
        {"spark.splitlib.catalog.lake.uri": "spark"},
        {"SPLITLIB_CATALOGS_FILE": str(toml), "SPLITLIB_CATALOG__LAKE__TOKEN": "environment"},
    )
    assert named == {
        "lake": {
            "uri": "spark",
            "token": "environment",
            "s3.region": "r",
            "storage_options": {"key": "k"},
        }
    }
    other.write_text(json.dumps(named))
    assert named_catalogs({}, {"SPLITLIB_CATALOGS_FILE": str(other)}) == named
    assert splitlib.SplitConfig.resolve(environ={"SPLITLIB_CATALOGS_FILE": str(toml)})


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ("[" * 100_000, "json"),
        ('{"a":' * 100_000, "json"),
        ("a = " + "[" * 100_000, "toml"),
        ("a" + ".a" * 20_000 + " = 1", "toml"),  # the parser would take a minute
        ("x = '1' \n[a" + ".'a.a'" * 20_000 + "]", "toml"),
    ],
)
def test_a_file_that_is_nested_without_end(tmp_path, text, suffix):
    path = tmp_path / f"catalogs.{suffix}"
    path.write_text(text)
    with pytest.raises(splitlib.ConfigError, match="cannot be read: RecursionError"):
        named_catalogs({}, {"SPLITLIB_CATALOGS_FILE": str(path)})


@pytest.mark.parametrize("text", [f'[lake]\ntoken = "{SECRET}', f'lake = "{SECRET}"', None])
@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_a_file_without_catalogs(tmp_path, text, suffix):
    path = tmp_path / f"catalogs.{suffix}"
    if text is not None:
        path.write_text(text)
    with pytest.raises(splitlib.ConfigError, match="SPLITLIB_CATALOGS_FILE") as caught:
        named_catalogs({}, {"SPLITLIB_CATALOGS_FILE": str(path)})
    assert SECRET not in everything_of(caught.value)


def test_a_checkpoint_knows_its_table_whatever_the_credentials():
    def table(name):
        return enumerator_of(MemoryConnector(), name).identity()["table"]

    assert table("s3://me:old@b/t?sig=old") == table("s3://me:new@b/t?sig=new")
    assert SECRET not in table(f"s3://me:{SECRET}@b/t?sig={SECRET}")
    distinct = ["s3://me:old@b/t", "s3://me:old@b/u", "s3://me:old@c/t"]
    distinct += ["abfss://a@account/t", "abfss://b@account/t"]
    assert len(set(map(table, distinct))) == len(distinct)
    # A secret of another table does not change how locations are shown.
    remember("x", {"secret": "@account"})
    assert table("abfss://a@account/t") == "abfss://a@account/t"


@pytest.mark.parametrize("text", ["a:1,", "//a:", "x?key=", "=a:b/"])
def test_a_long_text_takes_no_longer_than_it_should(text):
    started = time.thread_time()  # of the processor, so other processes do not count
    without_credentials(text * 20_000)
    assert time.thread_time() - started < 10


class Frozen(Exception):
    """An error with read-only attributes, like thrift's errors."""

    def __setattr__(self, *_: object) -> None:
        raise TypeError("can't modify immutable instance")


def test_causes_that_refuse_to_be_changed():
    cause = Frozen("not there")
    BaseException.__setattr__(cause, "__cause__", ValueError("thrift://user:planted@host"))
    with pytest.raises(splitlib.SourceError) as raised, error_context(connector="c"):
        raise splitlib.SourceError("no answer") from cause
    told = "".join(traceback.format_exception(raised.value))
    assert "not there" in told
    assert "planted@" not in told  # the checkout may lie in a directory of the name


def test_how_to_sign_is_no_secret():
    remember("t", {"rest.signing-region": "eu-planted-1", "auth.type": "planted-auth"})
    assert redact("eu-planted-1 planted-auth") == "eu-planted-1 planted-auth"


@pytest.mark.parametrize(
    ("path", "identity", "shown"),
    [
        ("s3://key:secret@bucket/x", "s3://bucket/x", "s3://bucket/x"),
        ("s3://key:sec/ret@bucket/x", "s3://key:sec/ret@bucket/x", "s3://bucket/x"),
        ("az://b/x?sig=abc", "az://b/x?sig=abc", "az://b/x?sig=***"),
        *(
            (path, path, path)
            for path in (
                "alluxio://h1:19998,h2:19998/t/m=x@y/f",
                "hdfs://nn:8020/a:b@c/f",
                "abfss://container@account/a:b@c/f",
                "/t/pwd=abc/m=x@y/ts=2024-01-01 10:00:00/f",
                "/a?b/pwd=1/f",
            )
        ),
    ],
)
def test_paths_of_files(path: str, identity: str, shown: str) -> None:
    """Files with different paths must keep different identities."""
    assert without_login(path) == identity
    assert redact_path(path) == shown
