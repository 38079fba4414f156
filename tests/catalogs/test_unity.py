"""Unity Catalog's client, over HTTP and beside it: what it asks, what it makes of answers, and what it never shows."""

from __future__ import annotations

import json
import socket
import urllib.parse

import pytest

from headwater.catalogs.interface import Away, CatalogFailure, NotProposed, TooManyUnpublished, Unanswered, VersionTaken
from headwater.catalogs.unity.requests import (
    AlreadyExists,
    Answer,
    Api,
    Changed,
    Forbidden,
    NotFound,
    NotOffered,
    over_http,
)
from headwater.catalogs.unity.tables import UnityCatalog
from headwater.catalogs.unity.tokens import ClientCredentials, StaticToken
from headwater.log.snapshot import load_snapshot
from headwater.protocol.types import parse_schema
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.commits import add_file
from support.managed_tables import TOKEN, catalog_of, create_managed, log_of
from support.unity_server import UnityModel, serving


@pytest.fixture
def model(tmp_path):
    yield UnityModel(str(tmp_path), TOKEN)
    assert wait_for_maintenance(60)


def test_a_life_of_tables_over_http(model):
    with serving(model) as uri:
        catalog = UnityCatalog(Api(uri, StaticToken(TOKEN)), "main")
        catalog.check()
        store = LocalStore()
        for name in ("a", "b", "c/ü x"):
            create_managed(catalog, store, name)
        assert catalog.schemas() == ["s"]
        assert catalog.tables("s") == ["a", "b", "c/ü x"]
        log = log_of(catalog, store, "c/ü x")
        txn = Transaction(log.table_path, log, load_snapshot(log.table_path, log))
        txn.add([add_file("mine")])
        assert txn.commit(Provenance("WRITE")).version == 1
        catalog.rename("s", "b", "d")
        with pytest.raises(AlreadyExists):
            catalog.rename("s", "d", "a")
        assert (catalog.exists("s", "b"), catalog.exists("s", "d")) == (False, True)
        assert (catalog.drop("s", "d"), catalog.drop("s", "d")) == (True, False)
        loaded = catalog.load("s", "c/ü x")
        assert (loaded.is_managed, loaded.ratified.latest) == (True, 1)
        [credential] = catalog.credentials("s", "a", writes=True)
        assert credential.config == {"s3.access-key-id": "AK", "s3.secret-access-key": "SECRET"}
        assert "SECRET" not in repr(credential)
        with pytest.raises(NotFound):
            catalog.load("s", "nosuch")


def test_a_wrong_token_is_refused_and_shown_nowhere(model):
    with serving(model) as uri:
        catalog = UnityCatalog(Api(uri, StaticToken("dapi-wrong")), "main")
        with pytest.raises(NotProposed, match="status 401") as raised:
            catalog.tables("s")
    assert "dapi-wrong" not in str(raised.value)
    assert "dapi-wrong" not in repr(catalog.api.tokens)
    assert "dapi-wrong" not in catalog.api.identity


def test_a_server_that_is_not_there():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(Away, match="cannot be reached"):
        Api(f"http://127.0.0.1:{port}", StaticToken("t")).call("GET", "/x")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", b"hello\r\n\r\n"])
def test_a_server_that_breaks_off(answer):
    with socket.create_server(("127.0.0.1", 0)) as server:
        import threading

        def once():
            with server.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=once)
        thread.start()
        with pytest.raises(Unanswered):
            Api(f"http://127.0.0.1:{server.getsockname()[1]}", StaticToken("t")).call("POST", "/x", {})
        thread.join()


@pytest.mark.parametrize(
    "uri", ["ftp://host", "host:8080", "http://catalog.example.com", "https://user:pass@host", "https://host/?a=1", ""]
)
def test_addresses_that_are_refused(uri):
    with pytest.raises(NotProposed) as raised:
        over_http(uri)
    assert "pass" not in str(raised.value)


@pytest.mark.parametrize(
    ("status", "kind", "failure"),
    [
        (400, "InvalidParameterValueException", NotProposed),
        (403, "PermissionDeniedException", Forbidden),
        (404, "NoSuchTableException", NotFound),
        (409, "CommitVersionConflictException", VersionTaken),
        (409, "UpdateRequirementConflictException", Changed),
        (409, "AlreadyExistsException", AlreadyExists),
        (409, "", VersionTaken),
        (429, "ResourceExhaustedException", TooManyUnpublished),
        (429, "TooManyRequestsException", Away),
        (429, "", Away),
        (408, "", Unanswered),
        (500, "CommitStateUnknownException", Unanswered),
        (501, "", NotOffered),
        (503, "", Unanswered),
        (302, "", Unanswered),
    ],
)
def test_what_an_error_says_was_done(status, kind, failure):
    body = json.dumps({"error": {"type": kind, "message": f"no {TOKEN} " + "x" * 5000, "code": status}})
    api = Api("http://localhost:1", StaticToken(TOKEN), lambda request: Answer(status, body.encode() if kind else b"?"))
    with pytest.raises(CatalogFailure, match=f"status {status}") as raised:
        api.call("POST", "/x", {})
    assert type(raised.value) is failure
    assert TOKEN not in str(raised.value)
    assert len(str(raised.value)) < 700


def test_tokens_of_an_oauth_server(model):
    """One that expires early is replaced, and the request made once more; a refusal names no secret."""
    asked = []

    def post(headers, body):
        asked.append((headers["Authorization"], urllib.parse.parse_qs(body.decode())))
        token = f"token-{len(asked)}"
        model.tokens = {token}
        return 200, json.dumps({"access_token": token, "expires_in": 3600}).encode()

    tokens = ClientCredentials("me", "hush", post, "all-apis")
    catalog = UnityCatalog(Api("http://localhost:1", tokens, model.handle), "main")
    assert catalog.tables("s") == catalog.tables("s") == []
    assert len(asked) == 1
    assert asked[0][1] == {"grant_type": ["client_credentials"], "scope": ["all-apis"]}
    model.tokens = set()
    assert catalog.tables("s") == []
    assert len(asked) == 2
    assert "hush" not in repr(tokens) + tokens.identity


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        ((401, b'{"error":"invalid_client"}'), NotProposed),
        ((200, b"[]"), NotProposed),
        ((200, b'{"access_token": 1}'), NotProposed),
        ((200, b'{"access_token": "t", "expires_in": "soon"}'), NotProposed),
        ((503, b""), Away),
    ],
)
def test_an_oauth_server_that_gives_no_token(answer, failure):
    tokens = ClientCredentials("me", "hush", lambda headers, body: answer)
    with pytest.raises(failure) as raised:
        tokens.get()
    assert type(raised.value) is failure
    assert "hush" not in str(raised.value)


def _without(key):
    return lambda answer: answer["metadata"].pop(key)


def _commit(**changed):
    def change(answer):
        answer["latest-table-version"] = 1
        answer["commits"] = [
            {
                "version": 1, "timestamp": 1, "file-name": f"{1:020}.aa-bb.json", "file-size": 1,
                "file-modification-timestamp": 1, **changed,
            }
        ]  # fmt: skip

    return change


@pytest.mark.parametrize(
    "change",
    [
        _without("table-uuid"),
        _without("location"),
        lambda answer: answer.pop("metadata"),
        lambda answer: answer.pop("latest-table-version"),
        lambda answer: answer.update({"latest-table-version": "7"}),
        lambda answer: answer.update(commits={}),
        _commit(**{"file-name": "../../../etc/passwd"}),
        _commit(**{"file-name": f"{1:020}.x/../../secret.json"}),
        _commit(**{"file-name": f"{2:020}.aa-bb.json"}),
        _commit(version=3),
        _commit(timestamp=None),
    ],
)
def test_an_answer_that_says_nothing_is_an_error(model, change):
    create_managed(catalog_of(model), LocalStore())

    def send(request):
        answer = model.handle(request)
        content = json.loads(answer.body)
        change(content)
        return Answer(answer.status, json.dumps(content).encode())

    with pytest.raises(Unanswered, match="as the interface defines it"):
        catalog_of(model, send).load("s", "t")


def test_types_are_spelled_as_the_interface_has_them(model):
    from headwater.catalogs.unity.tables import _columns

    text = (
        '{"type":"struct","fields":[{"name":"a","type":{"type":"array","elementType":{"type":"map","keyType":"string",'
        '"valueType":{"type":"struct","fields":[]},"valueContainsNull":true},"containsNull":false},"nullable":true,'
        '"metadata":{"elementType":"stays"}}]}'
    )
    parse_schema(text)
    [field] = _columns(json.loads(text))["fields"]
    assert field["metadata"] == {"elementType": "stays"}
    assert field["type"] == {
        "type": "array",
        "contains-null": False,
        "element-type": {
            "type": "map",
            "key-type": "string",
            "value-type": {"type": "struct", "fields": []},
            "value-contains-null": True,
        },
    }


def test_a_table_of_that_name_that_is_another_one(model):
    create_managed(catalog_of(model), LocalStore())
    table = log_of(catalog_of(model), LocalStore()).table
    catalog_of(model).drop("s", "t")
    create_managed(catalog_of(model), LocalStore())
    with pytest.raises(Changed):
        table.ratified()
    with pytest.raises(Changed):
        table.report_published(0)
