"""Credentials of catalogs as the process keeps them: when they are asked for, and for how long they are used."""

from __future__ import annotations

import pytest

from headwater.catalogs.interface import Unanswered
from headwater.catalogs.unity.requests import Answer, Api, Request
from headwater.catalogs.unity.tables import Name, UnityCatalog
from headwater.catalogs.unity.tokens import StaticToken
from headwater.statements.running.vended import Vended, of_staging, of_table, renewed
from support.unity_server import Refusal, UnityModel, credential

NAME = Name("main", "s", "t")
HOUR = 3_600_000


class Clock:
    now = 1_000_000_000

    def milliseconds(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr("headwater.basics.clock.milliseconds", found.milliseconds)
    return found


class Server:
    """A catalog with a table, whose credentials have numbers. ``fails``: by operation, a status."""

    def __init__(self, clock, root="s3://b/w"):
        self.clock, self.number, self.fails, self.asked, self.down = clock, 0, {}, [], False
        self.model = UnityModel(root, "token", "other")
        self.model.vends = self.vend
        self.staging = self.catalog().stage("s", "t")
        self.id, self.location = self.staging.table_id, self.staging.location

    def vend(self, location, operation):
        self.asked.append(operation)
        if status := self.fails.get(operation):
            raise Refusal(status, "No", "no")
        self.number += 1
        keys = {"s3.access-key-id": f"AK{self.number}", "s3.secret-access-key": "SK"}
        return [credential(location, operation, keys, self.clock.now + HOUR)]

    def send(self, request: Request) -> Answer:
        return Answer(500, b"") if self.down else self.model.handle(request)

    def catalog(self, token="token", **more):
        return UnityCatalog(Api("http://localhost:1", StaticToken(token), self.send), "main", **more)

    def create(self):
        """Give the table its name."""
        protocol = {"writer-features": sorted(self.staging.protocol.writer_features)}
        body = {"name": "t", "location": self.location, "table-type": "MANAGED", "columns": {"type": "struct"}}
        properties = {"io.unitycatalog.tableId": self.id}
        self.model._create(self.model.schemas["s"], body | {"protocol": protocol, "properties": properties})
        return self

    def key(self, found):
        [key] = [value for name, value in found.settings.items() if name.endswith(".access.key")] or [None]
        return key

    def get(self, catalog=None):
        return self.key(of_table(catalog or self.catalog(), NAME, self.id, self.location))

    def renew(self, expires, refused=False):
        found = renewed(self.catalog(), NAME, self.id, self.location, expires, is_new=False, refused=refused)
        return None if found is None else self.key(found)


@pytest.fixture
def server(clock):
    return Server(clock).create()


def test_they_are_used_for_half_of_their_life(server, clock):
    assert [server.get(), server.get()] == ["AK1", "AK1"]
    clock.now += HOUR // 2 - 1
    assert server.get() == "AK1"
    clock.now += 1
    assert [server.get(), server.get()] == ["AK2", "AK2"]
    assert server.asked == ["READ_WRITE"] * 2


def test_a_new_table_keeps_what_its_place_was_reached_with(clock):
    server = Server(clock)
    assert server.key(of_staging(server.catalog(), server.staging)) == "AK1"
    assert server.create().get() == "AK1"


def test_nobody_is_given_those_of_another_token(server):
    assert [server.get(), server.get(server.catalog("other")), server.get()] == ["AK1", "AK2", "AK1"]


def test_rights_to_read_alone_are_asked_about_again_soon(server, clock):
    server.fails = {"READ_WRITE": 403}
    assert [server.get(), server.get()] == ["AK1", "AK1"]
    assert server.asked == ["READ_WRITE", "READ"]
    server.fails = {}
    clock.now += 60_000
    assert server.get() == "AK2"


@pytest.mark.parametrize("status", [404, 501])
def test_a_server_that_vends_none_is_not_asked_with_each_statement(status, server, clock):
    server.fails = {"READ_WRITE": status}
    assert [server.get(), server.get()] == [None, None]
    assert len(server.asked) == 1
    server.fails = {}
    clock.now += 60_000
    assert server.get() == "AK1"


def test_a_server_that_fails_leaves_what_has_not_expired(server, clock):
    assert server.get() == "AK1"
    server.down = True
    clock.now += HOUR - 1
    assert server.get() == "AK1"
    clock.now += 1
    with pytest.raises(Unanswered, match="status 500"):
        server.get()


def test_none_are_asked_for_where_they_are_not_wanted(server, clock):
    assert server.get(server.catalog(vends=False)) is None
    local = Server(clock, root="/w").create()
    assert local.get() is None
    assert server.asked == local.asked == []


def test_a_commit_replaces_what_expires_or_was_refused(server, clock):
    assert server.get() == "AK1"
    began = clock.now + HOUR
    assert server.renew(began) is None
    assert server.renew(0, refused=True) is None
    clock.now += HOUR - 30_000
    assert server.renew(began) == "AK2"
    # Others that began with the first ones are given the same.
    assert server.renew(began) == server.renew(began, refused=True) == "AK2"
    assert server.renew(clock.now + HOUR, refused=True) == "AK3"
    server.down = True
    assert server.renew(clock.now + HOUR, refused=True) is None


def test_no_text_has_them(server):
    found = of_table(server.catalog(), NAME, server.id, server.location)
    assert isinstance(found, Vended)
    assert "AK1" not in f"{found!r} {found}"
