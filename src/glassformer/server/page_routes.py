"""Routes of the web page: its files, built into the package, and the API's documentation.

Files are read when the server starts and looked up by their full name in a table, so no path can lead outside them.
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
STYLE = (
    "body{font:16px/1.5 system-ui;max-width:46rem;margin:2rem auto;padding:0 1rem}code{background:#8882;padding:0 .2em}"
)


@dataclass(frozen=True)
class PageFile:
    content: bytes
    media_type: str


def page_files(folder: Path = FOLDER) -> dict[str, PageFile]:
    """The page's files by URL path: index.html as /, all others as /assets/..., wherever they are in the folder."""
    table = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
        if path.suffix in MEDIA_TYPES and path.is_file() and not path.is_symlink():
            name = path.relative_to(folder).as_posix()
            url_path = "/" if name == "index.html" else f"/assets/{name.removeprefix('assets/')}"
            table[url_path] = PageFile(path.read_bytes(), MEDIA_TYPES[path.suffix])
    return table


def routes(
    table: dict[str, PageFile], model: str, version: str, describe: Callable[[], dict[str, Any]], read_pool: WorkerPool
) -> APIRouter:
    """Routes of the web page and of /docs, which is made from the OpenAPI document that `describe` returns.

    The first call of `describe` is slow, so it runs in `read_pool`.
    """
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def page() -> Response:
        return _page(table["/"]) if "/" in table else _html_page(_welcome(model, version))

    @router.get("/assets/{name:path}")
    async def asset(name: str) -> Response:
        file = table.get(f"/assets/{name}")
        if file is None:
            raise HTTPError(404, "There is no such file.")
        return _page(file)

    @router.get("/docs")
    async def docs(request: Request) -> Response:
        return await read_pool.run(request, lambda: _html_page(docs_page(describe())))

    @router.get("/openapi.json")
    async def openapi(request: Request) -> Response:
        return await read_pool.run(request, lambda: JSONResponse(describe()))

    return router


def _page(file: PageFile) -> Response:
    headers = {"content-security-policy": PAGE_POLICY, "cache-control": "no-cache"}
    return Response(file.content, headers=headers, media_type=file.media_type)


def _html_page(text: str) -> Response:
    return _page(PageFile(text.encode(), MEDIA_TYPES[".html"]))


def _html(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style><main><h1>{escape(title)}</h1>{body}'
        "</main></html>"
    )


def _welcome(model: str, version: str) -> str:
    return _html(
        "glassformer",
        f"<p>glassformer {escape(version)} serves the model <code>{escape(model)}</code> here.</p>"
        '<p>API: <a href="/docs">documentation</a>, <a href="/openapi.json">OpenAPI</a>. '
        'Status: <a href="/health">/health</a>, <a href="/metrics">/metrics</a>.</p>',
    )


def docs_page(document: dict[str, Any]) -> str:
    """The OpenAPI document as an HTML page."""
    schemas = document["components"]["schemas"]
    parts = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(
                f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation.get('summary', ''))}</p>"
            )
            rows = [
                (parameter["name"], parameter.get("description", ""), parameter["in"])
                for parameter in operation.get("parameters", [])
            ]
            for content in operation.get("requestBody", {}).get("content", {}).values():
                schema = schemas[content["schema"]["$ref"].rpartition("/")[2]]
                rows += [(name, field.get("description", ""), "body") for name, field in schema["properties"].items()]
            if rows := list(dict.fromkeys(rows)):
                items = "".join(
                    f"<li><code>{escape(name)}</code> ({place}): {escape(meaning)}</li>"
                    for name, meaning, place in rows
                )
                parts.append(f"<ul>{items}</ul>")
    return _html("API documentation", "".join(parts))
