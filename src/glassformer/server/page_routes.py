"""Routes of the web page: its files, built into the package, and the API's documentation.

Files are read and compressed when the server starts, and looked up by their full name in a table, so no path can lead
outside them. Their links are relative, so that they work below any root path.
"""

import gzip
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from glassformer.server.access_policy import header
from glassformer.server.docs_page import docs_page, html_document
from glassformer.server.http_errors import HTTPError
from glassformer.server.middleware import PAGE_POLICY
from glassformer.server.worker_pool import WorkerPool

FOLDER = Path(str(files("glassformer") / "server" / "static"))
TRY_REQUEST = FOLDER.parent / "try_request.js"
"""The script of /docs."""
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
    ".map": "application/json",
    ".woff2": "font/woff2",
}
"""Media types by file suffix; files with other suffixes are not served."""


@dataclass(frozen=True)
class PageFile:
    content: bytes
    media_type: str

    @cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.content, mtime=0)

    @cached_property
    def tag(self) -> str:
        """The ETag: a browser that has this content is told so, and sent nothing."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:16]}"'


def page_files(folder: Path = FOLDER) -> dict[str, PageFile]:
    """The page's files by URL path: index.html as /, all others as /assets/..., wherever they are in the folder."""
    table = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
        if path.suffix in MEDIA_TYPES and path.is_file() and not path.is_symlink():
            name = path.relative_to(folder).as_posix()
            url_path = "/" if name == "index.html" else f"/assets/{name.removeprefix('assets/')}"
            table[url_path] = PageFile(path.read_bytes(), MEDIA_TYPES[path.suffix])
    table["/assets/try_request.js"] = PageFile(TRY_REQUEST.read_bytes(), MEDIA_TYPES[".js"])
    for file in table.values():
        _ = file.compressed
    return table


def routes(
    table: dict[str, PageFile], model: str, version: str, describe: Callable[[], dict[str, Any]], read_pool: WorkerPool
) -> APIRouter:
    """Routes of the web page and of /docs, which is made from the OpenAPI document that `describe` returns.

    The first call of `describe` is slow, so it runs in `read_pool`.
    """
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def page(request: Request) -> Response:
        return _page(request, table["/"] if "/" in table else _html_file(_welcome(model, version)))

    @router.get("/assets/{name:path}")
    async def asset(request: Request, name: str) -> Response:
        file = table.get(f"/assets/{name}")
        if file is None:
            raise HTTPError(404, "There is no such file.")
        return _page(request, file)

    @router.get("/docs")
    async def docs(request: Request) -> Response:
        return await read_pool.run(request, lambda: _page(request, _html_file(docs_page(describe()))))

    @router.get("/openapi.json")
    async def openapi(request: Request) -> Response:
        return await read_pool.run(request, lambda: JSONResponse(describe()))

    return router


def _page(request: Request, file: PageFile) -> Response:
    headers = {"content-security-policy": PAGE_POLICY, "cache-control": "no-cache", "etag": file.tag}
    headers["vary"] = "accept-encoding"
    asked = request.scope["headers"]
    if header(asked, b"if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    content = file.content
    if _accepts_gzip(header(asked, b"accept-encoding") or ""):
        content, headers["content-encoding"] = file.compressed, "gzip"
    return Response(content, headers=headers, media_type=file.media_type)


def _accepts_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding header allows gzip: a weight of 0 refuses it."""
    for part in accepted.split(","):
        name, _, weight = part.partition(";")
        if name.strip().lower() == "gzip":
            return not re.fullmatch(r"q=0(\.0*)?", weight.replace(" ", ""))
    return False


def _html_file(text: str) -> PageFile:
    return PageFile(text.encode(), MEDIA_TYPES[".html"])


def _welcome(model: str, version: str) -> str:
    return html_document(
        "glassformer",
        f"<p>glassformer {escape(version)} serves the model <code>{escape(model)}</code> here.</p>"
        '<p>API: <a href="docs">documentation</a>, <a href="openapi.json">OpenAPI</a>. '
        'Status: <a href="health">/health</a>, <a href="metrics">/metrics</a>.</p>',
    )
