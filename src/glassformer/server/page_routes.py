"""The page: files that were built into the package, or a few lines that say what this server is.

Files are read when the server starts and found by their whole name in a table, so no path can lead out of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from glassformer.server.http_errors import HTTPError
from glassformer.server.middleware import PAGE_POLICY
from glassformer.server.worker_pool import WorkerPool

FOLDER = Path(str(files("glassformer") / "server" / "static"))
KINDS = {
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
"""What may be in the page's folder; other files are not served."""
STYLE = (
    "body{font:16px/1.5 system-ui;max-width:46rem;margin:2rem auto;padding:0 1rem}code{background:#8882;padding:0 .2em}"
)


@dataclass(frozen=True)
class PageFile:
    content: bytes
    media_type: str


def page_files(folder: Path = FOLDER) -> dict[str, PageFile]:
    """By their addresses: index.html as /, everything else as /assets/..., wherever it lies in the folder."""
    found = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
        if path.suffix in KINDS and path.is_file() and not path.is_symlink():
            name = path.relative_to(folder).as_posix()
            address = "/" if name == "index.html" else f"/assets/{name.removeprefix('assets/')}"
            found[address] = PageFile(path.read_bytes(), KINDS[path.suffix])
    return found


def routes(
    table: dict[str, PageFile], model: str, version: str, describe: Callable[[], dict[str, Any]], shelf: WorkerPool
) -> APIRouter:
    """`describe` gives the API's description, from which /docs is written; it takes a while the first time, so that
    happens at the shelf."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def page() -> Response:
        if "/" in table:
            return _page(table["/"])
        return _page(PageFile(_welcome(model, version).encode(), KINDS[".html"]))

    @router.get("/assets/{name:path}")
    async def asset(name: str) -> Response:
        found = table.get(f"/assets/{name}")
        if found is None:
            raise HTTPError(404, "There is no such file.")
        return _page(found)

    @router.get("/docs")
    async def docs(request: Request) -> Response:
        return await shelf.do(request, lambda: _page(PageFile(listing(describe()).encode(), KINDS[".html"])))

    @router.get("/openapi.json")
    async def openapi(request: Request) -> Response:
        return await shelf.do(request, lambda: JSONResponse(describe()))

    return router


def _page(file: PageFile) -> Response:
    headers = {"content-security-policy": PAGE_POLICY, "cache-control": "no-cache"}
    return Response(file.content, headers=headers, media_type=file.media_type)


def _html(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style><main><h1>{escape(title)}</h1>{body}'
        "</main></html>"
    )


def _welcome(model: str, version: str) -> str:
    return _html(
        "glassformer",
        f"<p>The model <code>{escape(model)}</code> is served here by glassformer {escape(version)}.</p>"
        '<p>What can be asked: <a href="/docs">in words</a>, or <a href="/openapi.json">as OpenAPI</a>. '
        'How it goes: <a href="/health">/health</a>, <a href="/metrics">/metrics</a>.</p>',
    )


def listing(description: dict[str, Any]) -> str:
    """The API's description as a page to read."""
    schemas = description["components"]["schemas"]
    parts = []
    for path, methods in description["paths"].items():
        for method, about in methods.items():
            parts.append(
                f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(about.get('summary', ''))}</p>"
            )
            rows = [(one["name"], one.get("description", ""), one["in"]) for one in about.get("parameters", [])]
            for content in about.get("requestBody", {}).get("content", {}).values():
                schema = schemas[content["schema"]["$ref"].rpartition("/")[2]]
                rows += [(name, one.get("description", ""), "body") for name, one in schema["properties"].items()]
            if rows := list(dict.fromkeys(rows)):
                items = "".join(f"<li><code>{escape(n)}</code> ({w}): {escape(m)}</li>" for n, m, w in rows)
                parts.append(f"<ul>{items}</ul>")
    return _html("What can be asked", "".join(parts))
