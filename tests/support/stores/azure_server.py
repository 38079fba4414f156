"""A server of Azure Data Lake Storage Gen2 (its DFS endpoint) in a process of its own, which can be told to misbehave.

No server program that can be installed has this endpoint: Azurite has that of blobs only. This one is written from
Microsoft's public reference of the REST API ("Path: Create, Update, Read, Get Properties, List, Delete"), in as much of
it as Hadoop's connector asks for, and keeps what that says of conditions: a create and a rename with ``If-None-Match:
*`` fail with 409 where the name is taken. It knows neither signatures nor owners. Data is appended at any position, in
any order and again, and is seen when it was flushed. ``azure_server`` prints its port and ends with its standard input;
rules: :mod:`support.stores.misbehaving`.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
from email.utils import formatdate
from urllib.parse import parse_qs, unquote

from support.stores.misbehaving import Misbehaving, serve


class Refused(Exception):
    """An error as the server answers it."""

    def __init__(self, status: int, code: str) -> None:
        self.status, self.code = status, code


class Entry:
    """A file, or a directory, whose ``content`` is None. ``coming``: what was appended and not flushed, by its
    position."""

    etags = itertools.count(1)

    def __init__(self, is_directory: bool) -> None:
        self.content = None if is_directory else b""
        self.coming: dict[int, bytes] = {}
        self.changed()

    def changed(self) -> None:
        self.etag = f'"0x{next(Entry.etags):X}"'
        self.modified = formatdate(usegmt=True)

    @property
    def flushed(self) -> bytes:
        return self.content or b""

    def headers(self) -> dict[str, str]:
        return {
            "ETag": self.etag,
            "Last-Modified": self.modified,
            "x-ms-resource-type": "directory" if self.content is None else "file",
            "x-ms-permissions": "rwxr-x---",
        }


class Azure:
    """File systems of all names, each made when it is first asked for. The paths of its entries have no slash at their
    beginning or end; that of the root is empty.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.systems: dict[str, dict[str, Entry]] = {}
        self.entries: dict[str, Entry] = {}

    def __call__(self, environ, start_response):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        system, _, path = environ["PATH_INFO"].encode("latin-1").decode().strip("/").partition("/")
        query = {name: values[-1] for name, values in parse_qs(environ.get("QUERY_STRING", "")).items()}
        method = environ.get("HTTP_X_HTTP_METHOD_OVERRIDE") or environ["REQUEST_METHOD"]
        try:
            with self.lock:
                self.entries = self.systems.setdefault(system, {"": Entry(is_directory=True)})
                if not path and query.get("resource") == "filesystem":
                    status, headers, content = self.file_system(method, query)
                else:
                    answer = {"PUT": self.put, "PATCH": self.patch, "HEAD": self.head, "GET": self.get}
                    status, headers, content = answer.get(method, self.delete)(path, query, environ, body)
        except Refused as error:
            status, headers = error.status, {"x-ms-error-code": error.code}
            content = json.dumps({"error": {"code": error.code, "message": error.code}}).encode()
        headers = {"Content-Length": str(len(content)), "x-ms-request-id": "1", **headers}
        start_response(f"{status} X", list(headers.items()))
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else content]

    def file_system(self, method, query):
        if method != "GET":
            return (201 if method == "PUT" else 200), {"Last-Modified": formatdate(usegmt=True), "ETag": '"0x0"'}, b""
        directory = query.get("directory", "").strip("/")
        self.entry(directory)
        start = f"{directory}/" if directory else ""
        deep = query.get("recursive") == "true"
        paths = [
            {
                "name": name,
                "isDirectory": str(entry.content is None).lower(),
                "contentLength": str(len(entry.flushed)),
                "lastModified": entry.modified,
                "etag": entry.etag.strip('"'),
            }
            for name, entry in sorted(self.entries.items())
            if name and name.startswith(start) and (deep or "/" not in name[len(start) :])
        ]
        return 200, {"Content-Type": "application/json"}, json.dumps({"paths": paths}).encode()

    def entry(self, path: str, code: str = "PathNotFound") -> Entry:
        if path not in self.entries:
            raise Refused(404, code)
        return self.entries[path]

    def put(self, path, query, environ, body):
        if path in self.entries and environ.get("HTTP_IF_NONE_MATCH") == "*":
            raise Refused(409, "PathAlreadyExists")
        if (match := environ.get("HTTP_IF_MATCH")) and self.entry(path).etag != match:
            raise Refused(412, "ConditionNotMet")
        source = unquote(environ.get("HTTP_X_MS_RENAME_SOURCE", "").partition("?")[0]).strip("/").partition("/")[2]
        if source:
            moved = self.entry(source, "SourcePathNotFound")
            self.entry(path.rpartition("/")[0], "RenameDestinationParentPathNotFound")
            del self.entries[source]
            self.entries[path] = moved
        elif query["resource"] == "file" or path not in self.entries:
            for parent in itertools.accumulate(path.split("/")[:-1], "{}/{}".format):
                self.entries.setdefault(parent, Entry(is_directory=True))
            self.entries[path] = Entry(query["resource"] == "directory")
        return 201, self.entries[path].headers(), b""

    def patch(self, path, query, environ, body):
        entry = self.entry(path)
        if query["action"] == "append":
            entry.coming[int(query["position"])] = body
        if query["action"] == "flush" or query.get("flush") == "true":
            content = entry.flushed
            while (more := entry.coming.get(len(content))) is not None:
                content += more
            wanted = int(query["position"]) + (len(body) if query["action"] == "append" else 0)
            if wanted != len(content):
                raise Refused(400, "InvalidFlushPosition")
            if content != entry.content:
                entry.content, entry.coming = content, {}
                entry.changed()
        return (202 if query["action"] == "append" else 200), entry.headers(), b""

    def head(self, path, query, environ, body):
        entry = self.entry(path)
        return 200, {**entry.headers(), "Content-Length": str(len(entry.flushed))}, b""

    def get(self, path, query, environ, body):
        entry = self.entry(path)
        if environ.get("HTTP_IF_MATCH", entry.etag).strip('"') != entry.etag.strip('"'):
            raise Refused(412, "ConditionNotMet")
        first, last = environ["HTTP_RANGE"].removeprefix("bytes=").split("-")
        if int(first) >= len(entry.flushed):
            raise Refused(416, "InvalidRange")
        return 206, entry.headers(), entry.flushed[int(first) : int(last) + 1]

    def delete(self, path, query, environ, body):
        self.entry(path)
        below = [name for name in self.entries if name.startswith(f"{path}/")]
        if below and query.get("recursive") != "true":
            raise Refused(409, "DirectoryNotEmpty")
        for name in (path, *below):
            del self.entries[name]
        return 200, {}, b""


def main() -> None:
    print(serve(Misbehaving(Azure(), one_at_a_time=False), *sys.argv[1:]), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
