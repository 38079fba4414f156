"""Servers of stores, told to misbehave: rules before an application that serves requests.

``POST /-/rules`` takes what to do to the requests that follow, as JSON:
``[{"method", "path", "unless", "signed", "do", "times"}]``, where ``path`` is a pattern found in the URL's path, with
the prefix that a listing asks for or the name that Google's uploads have behind it, ``unless`` is the access key of
those whom the rule does not concern, ``signed`` whether it concerns requests that are signed with a key or all others,
and ``do`` is

- ``ignore``: the condition (a header, or Google's parameter) is not passed on, as by a server that does not know it;
- ``unknown``: 501, as by a server that knows that it does not;
- ``conflict``: 409, nothing is done;
- ``fail``: 500, nothing is done;
- ``deny``: 403, nothing is done;
- ``expire``: 400, as by a server whose credentials were good for a time; nothing is done;
- ``lose``: it is done, and then 500;
- ``hang up``: it is done, and then the connection is closed, without an answer;
- ``wait``: 20 ms later it is done;
- ``hold``: it is done when there are other rules, or after 20 s;
- ``late``: 500 at once, and it is done when there are other rules, before these are answered.

``GET /-/seen`` answers ``{"most": …, "requests": [[method, path, had a condition]…]}``: how many were under way at
once, and all since the last rules.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import socket
import threading
import time
from urllib.parse import parse_qs

from werkzeug.serving import WSGIRequestHandler, make_server

WAIT_SECONDS = 0.02
LONGEST_HOLD_SECONDS = 20
ERROR = '<?xml version="1.0"?><Error><Code>{}</Code><Message>{}</Message></Error>'
#: How Google's server is asked to create an object only if there is none.
GENERATION = "ifGenerationMatch=0"


class Quiet(WSGIRequestHandler):
    def log(self, *_):
        pass


class Misbehaving:
    """The server's application, with rules before it."""

    def __init__(self, served, one_at_a_time=True):
        """:param one_at_a_time: no two requests that change something are in the application at once."""
        self.served = served
        self.lock = threading.Lock()
        self.changing = threading.Lock() if one_at_a_time else contextlib.nullcontext()
        self.rules, self.seen, self.coming = [], [], []
        self.under_way = self.most = 0

    def __call__(self, environ, start_response):
        path, method, query = environ["PATH_INFO"], environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
        if path == "/-/rules":
            with self.lock:
                self.rules = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
                self.seen, self.most = [], 0
                coming, self.coming = self.coming, []
            for request in coming:
                list(self.served(request, lambda *answer: None))
            return self._answer(start_response, 200, "")
        if path == "/-/seen":
            return self._answer(start_response, 200, json.dumps({"most": self.most, "requests": self.seen}))
        with self.lock:
            self.seen.append([method, path, "HTTP_IF_NONE_MATCH" in environ or GENERATION in query])
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            rules = [self._take(rule) for rule in self.rules if self._concerns(rule, method, path, environ)]
        try:
            return self._ruled([rule["do"] for rule in rules], environ, start_response)
        finally:
            with self.lock:
                self.under_way -= 1

    @staticmethod
    def _concerns(rule, method, path, environ):
        query = parse_qs(environ.get("QUERY_STRING", ""))
        named = (query.get("prefix") or query.get("name") or [""])[0]
        return (
            rule.get("times", 1) > 0
            and rule.get("method", method) == method
            and re.search(rule.get("path", ""), f"{path}/{named}" if named else path) is not None
            and rule.get("signed") in (None, "HTTP_AUTHORIZATION" in environ)
            and ("unless" not in rule or f"Credential={rule['unless']}/" not in environ.get("HTTP_AUTHORIZATION", ""))
        )

    @staticmethod
    def _take(rule):
        rule["times"] = rule.get("times", 1_000_000) - 1
        return rule

    def _ruled(self, rules, environ, start_response):
        if "wait" in rules:
            time.sleep(WAIT_SECONDS)
        if "hold" in rules:
            held, until = self.rules, time.monotonic() + LONGEST_HOLD_SECONDS
            while self.rules is held and time.monotonic() < until:
                time.sleep(WAIT_SECONDS / 4)
        if "ignore" in rules:
            environ.pop("HTTP_IF_NONE_MATCH", None)
            environ["QUERY_STRING"] = environ.get("QUERY_STRING", "").replace(GENERATION, "ignored=0")
        if "late" in rules:
            self.coming.append({**environ, "wsgi.input": io.BytesIO(self._read(environ))})
            return self._answer(start_response, 500, ERROR.format("InternalError", "late"))
        for name, status, code in (
            ("unknown", 501, "NotImplemented"),
            ("conflict", 409, "ConditionalRequestConflict"),
            ("fail", 500, "InternalError"),
            ("deny", 403, "AccessDenied"),
            ("expire", 400, "ExpiredToken"),
        ):
            if name in rules:
                self._read(environ)
                return self._answer(start_response, status, ERROR.format(code, name))
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self.served(environ, start_response)
        with self.changing:
            answered = []
            body = b"".join(self.served(environ, lambda *answer: answered.append(answer)))
        if "lose" in rules:
            return self._answer(start_response, 500, ERROR.format("InternalError", "lost"))
        if "hang up" in rules:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionResetError
        start_response(*answered[0])
        return [body]

    @staticmethod
    def _read(environ):
        return environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))

    @staticmethod
    def _answer(start_response, status, text):
        body = text.encode()
        start_response(f"{status} X", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]


def serve(application: Misbehaving, host: str = "127.0.0.1") -> int:
    """Serve an application in threads of this process; the port."""
    server = make_server(host, 0, application, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.port
