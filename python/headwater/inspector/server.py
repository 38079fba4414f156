"""The inspector's server: the page and its facts, of a table or of the tables in a folder, on loopback.

Owns who gets an answer. Every address begins with a token that is made at the start; a request without it, to another
host name, or from a page of another origin is refused before anything is looked at. Only GET is answered. The content
security policy lets the page load and run nothing but its own files, and leaves no way to make markup of text.

Starlette and Uvicorn, not the standard library's ``http.server``, whose documentation warns of its use: they parse HTTP
strictly, and a slow request holds no other up.
"""

from __future__ import annotations

import secrets
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.basics.errors import HeadwaterError, access_failed
from headwater.basics.recent import Recent
from headwater.inspector import files, log_files, skipping
from headwater.inspector.advice import advice
from headwater.inspector.comparison import comparison
from headwater.inspector.folder import Folder
from headwater.inspector.history import History
from headwater.inspector.overview import counts, overview
from headwater.inspector.plain import json_value
from headwater.inspector.sample import sample
from headwater.inspector.table import InspectedTable, View
from headwater.inspector.version import version_details
from headwater.log.snapshot import Snapshot

LOOPBACK = "127.0.0.1"
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_PAGE: Mapping[str, str] = {
    "": "index.html",
    "page.css": "page.css",
    "page.js": "page.js",
    "folder.js": "folder.js",
    "address.js": "address.js",
    "ask.js": "ask.js",
    "completing.js": "completing.js",
    "charts.js": "charts.js",
    "dom.js": "dom.js",
    "language.js": "language.js",
    "uPlot.js": "uPlot.js",
    "uPlot.css": "uPlot.css",
    "icon.svg": "icon.svg",
}
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
#: Seconds that the long work waits for a page to be opened first, which it would slow down.
_PATIENCE = 3
#: Files whose rows are counted before the timeline is shown.
_COUNTED_AT_ONCE = 50_000
#: How many versions, offsets and the like a number of a request may have.
_LARGEST = (1 << 63) - 1
#: Tables of a folder whose facts are kept.
_MOST_OPENED = 6


class Guard:
    """Lets through what comes from the page, or from whoever was given its address."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in message["headers"]}
                more = [(k.encode(), v.encode()) for k, v in _HEADERS.items() if k.encode() not in names]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        path = scope["path"][len(self._token) + 1 :]
        await self._app({**scope, "path": path or "/", "raw_path": None}, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        own = f"{LOOPBACK}:{scope['server'][1]}"
        if host not in (own, f"localhost:{scope['server'][1]}"):
            return PlainTextResponse("This address is not the inspector's.", 421)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return PlainTextResponse("Other pages get no answer here.", 403)
        is_visit = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not is_visit:
            return PlainTextResponse("Other pages get no answer here.", 403)
        given = scope["path"][1:].partition("/")[0]
        if not secrets.compare_digest(given.encode(), self._token.encode()):
            return PlainTextResponse("Open the address that headwater inspect printed: it ends with a token.", 403)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("The inspector only reads.", 405, {"allow": "GET, HEAD"})
        if scope["path"] == f"/{self._token}":  # the page's own addresses are relative to a folder
            return Response(status_code=308, headers={"location": f"/{self._token}/"})
        return None


class NoSuchCall(Exception):
    """A request names a call that there is none of."""


class Facts:
    """The calls of the page: each a path below ``api/``, answered with JSON."""

    def __init__(self, table: InspectedTable) -> None:
        self._table = table
        self._history = History(table)
        self._opened = threading.Event()
        self.calls: Mapping[str, Callable[[Request], Any]] = {
            "place": self._place,
            "newest": self._newest,
            "overview": self._of_view(overview),
            "counts": self._of_view(counts),
            "advice": lambda request: advice(self._view(request)),
            "sizes": self._of_view(files.sizes),
            "optimize": self._of_view(files.optimize),
            "vectors": self._of_view(files.vectors),
            "partitions": self._of_view(files.partitions),
            "writers": lambda request: log_files.writers(self._view(request)),
            "vacuum": lambda request: log_files.vacuum(self._view(request)),
            "log": self._log,
            "history": self._of_history,
            "version": self._of_version,
            "compare": self._compare,
            "overlap": self._overlap,
            "depths": self._depths,
            "skipping": self._skipping,
            "sample": self._sample,
        }

    def answer(self, name: str, request: Request) -> Any:
        """The answer of a call.

        :raises NoSuchCall: no call has the name.
        """
        if name not in self.calls:
            raise NoSuchCall(name)
        return self.calls[name](request)

    def _place(self, request: Request) -> Any:
        """What the page is of."""
        return {"kind": "table", "path": self._table.path}

    def warm_up(self) -> None:
        """Work out what the page asks for first and what takes long, before it asks."""
        works: list[Callable[[View], object]] = [
            lambda view: self._history.page(snapshot=view.snapshot),
            partial(View.once, name=files.sizes, make=files.sizes),
            lambda _: self._opened.wait(_PATIENCE),
            *(
                partial(View.once, name=make, make=make)
                for make in (counts, files.partitions, files.vectors, files.optimize)
            ),
            advice,
            self._overlaps,
            lambda view: view.once("depths", lambda _: skipping.column_depths(view)),
        ]
        for work in works:
            try:
                work(self._table.view())
            except (HeadwaterError, OSError, ArithmeticError, ValueError, KeyError, TypeError):
                continue  # whoever asks for it gets the error

    def _view(self, request: Request) -> View:
        return self._table.view(_number(request, "version"))

    def _of_view(self, make: Callable[[Snapshot], Any]) -> Callable[[Request], Any]:
        return lambda request: self._view(request).once(make, make)

    def _newest(self, request: Request) -> Any:
        snapshot = self._table.view().snapshot
        return {"version": snapshot.version, "time": snapshot.timestamp}

    def _log(self, request: Request) -> Any:
        try:
            view = self._view(request)
        except HeadwaterError:
            view = None
        return log_files.log_facts(self._table, view)

    def _of_history(self, request: Request) -> Any:
        before = _number(request, "before")
        try:
            view = self._table.view()
        except HeadwaterError:
            return self._history.page(before)
        # To count the rows of very many files takes longer than all else: the page asks again when they are known.
        soon = view.has(counts) or view.snapshot.num_files <= _COUNTED_AT_ONCE
        rows = view.once(counts, counts)["rows"] if soon else None
        page = {**self._history.page(before, view.snapshot, rows), "counted": soon}
        self._opened.set()
        return page

    def _of_version(self, request: Request) -> Any:
        return version_details(self._table, _number(request, "number") or 0, _number(request, "offset") or 0)

    def _compare(self, request: Request) -> Any:
        return comparison(self._table, _number(request, "from") or 0, _number(request, "to") or 0)

    def _overlap(self, request: Request) -> Any:
        path = tuple(request.query_params.getlist("column"))
        return self._view(request).once(
            ("overlap of", path), lambda _: skipping.column_overlap(self._view(request), path)
        )

    def _depths(self, request: Request) -> Any:
        view = self._view(request)
        return view.once("depths", lambda _: skipping.column_depths(view))

    def _skipping(self, request: Request) -> Any:
        column = tuple(request.query_params.getlist("column"))
        return skipping.explain(self._view(request), request.query_params.get("where", ""), column or None)

    def _sample(self, request: Request) -> Any:
        return sample(self._view(request).snapshot, _number(request, "start") or 0)

    @staticmethod
    def _overlaps(view: View) -> None:
        for path in view.once(overview, overview)["columnsWithBounds"]:
            view.once(
                ("overlap of", tuple(path)), partial(lambda path, _: skipping.column_overlap(view, path), tuple(path))
            )


class FolderFacts:
    """The calls of the page of a folder, and of the tables in it: those name theirs as ``table``."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._opened: Recent[str, Facts] = Recent(_MOST_OPENED)
        self._own: Mapping[str, Callable[[Request], Any]] = {
            "place": lambda _: {"kind": "folder", "path": folder.path},
            "tables": lambda _: folder.search()._asdict(),
            "glance": lambda request: folder.glance(request.query_params.get("table", "")),
        }

    def warm_up(self) -> None:
        """Nothing is worked out before a table is opened."""

    def answer(self, name: str, request: Request) -> Any:
        """See :meth:`Facts.answer`."""
        if name in self._own:
            return self._own[name](request)
        return self._facts(request.query_params.get("table", "")).answer(name, request)

    def _facts(self, name: str) -> Facts:
        """Those of a table. They are kept for the tables opened last."""
        table = self._folder.table(name)
        with self._lock:
            known = self._opened.get(name)
            self._opened[name] = facts = Facts(table) if known is None else known
        if known is None:
            threading.Thread(target=facts.warm_up, daemon=True, name="inspector warm-up").start()
        return facts


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) > _LARGEST:
        raise ValueError(f"{name} is not a number")
    return int(text)


def application(target: InspectedTable | Folder, token: str) -> ASGIApp:
    """The inspector of a table, or of the tables in a folder, below ``/<token>/``."""
    return Guard(_routes(facts_of(target)), token)


def facts_of(target: InspectedTable | Folder) -> Facts | FolderFacts:
    """The calls of the page of a table or of a folder."""
    return FolderFacts(target) if isinstance(target, Folder) else Facts(target)


def _routes(facts: Facts | FolderFacts) -> Starlette:
    def call(request: Request) -> Response:
        name = request.path_params["name"]
        return answer_of(partial(facts.answer, name), request)

    def page(request: Request) -> Response:
        name = request.path_params.get("name", "")
        if name not in _PAGE:
            return PlainTextResponse("There is no such page.", 404)
        file = _PAGE[name]
        return Response(_file(file), media_type=_TYPES[Path(file).suffix])

    app = Starlette(routes=[Route("/", page), Route("/api/{name}", call), Route("/{name}", page)])
    app.router.redirect_slashes = False
    return app


def answer_of(make: Callable[[Request], Any], request: Request) -> Response:
    try:
        return _json(make(request))
    except NoSuchCall:
        return PlainTextResponse("There is no such page.", 404)
    except HeadwaterError as error:
        return _json({"condition": error.condition, "message": error.text}, 422)
    except OSError as error:
        found = access_failed(error)
        return _json({"condition": found.condition, "message": found.text}, 422)
    except ValueError as error:
        return _json({"condition": None, "message": str(error)}, 400)
    except Exception as error:  # a defect: the page says so, and goes on
        print(f"headwater inspect: {request.url.path.rpartition('/')[2]}: {error!r}", file=sys.stderr)
        return _json({"condition": None, "message": "The inspector failed at this; its terminal says more."}, 500)


def _json(value: Any, status: int = 200) -> Response:
    try:
        text = orjson.dumps(value)
    except TypeError:  # a damaged log may have numbers and texts that no writer means
        text = orjson.dumps(json_value(value))
    return Response(text, status, media_type="application/json")


@cache
def _file(name: str) -> bytes:
    return (Path(__file__).parent / "page" / name).read_bytes()


class Inspector:
    """A server that listens, with its address."""

    def __init__(self, target: InspectedTable | Folder, port: int = 0) -> None:
        """``port`` 0 takes a free one.

        :raises HeadwaterError: ``HEADWATER_INSPECT_PORT_TAKEN``.
        """
        self._socket = _listen(port)
        token = secrets.token_urlsafe(24)
        self.url = f"http://{LOOPBACK}:{self._socket.getsockname()[1]}/{token}/"
        self._facts = facts_of(target)
        config = uvicorn.Config(
            Guard(_routes(self._facts), token),
            log_level="warning",
            access_log=False,  # an address holds the token
            lifespan="off",
            ws="none",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self.server = uvicorn.Server(config)

    def run(self) -> None:
        """Answer until the process is interrupted, or ``server.should_exit`` is set."""
        threading.Thread(target=self._facts.warm_up, daemon=True, name="inspector warm-up").start()
        try:
            self.server.run(sockets=[self._socket])
        finally:
            self._socket.close()


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen(128)  # so that a port that another listens on is refused here
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise HeadwaterError("HEADWATER_INSPECT_PORT_TAKEN", {"port": port, "reason": reason}) from None
    return listening
