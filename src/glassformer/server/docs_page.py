"""/docs: the API as an HTML page made from its OpenAPI description, where every request can be tried."""

import json
from html import escape
from typing import Any

STYLE = (
    "body{font:16px/1.5 system-ui;max-width:46rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "code{background:#8882;padding:0 .2em}h2{margin-top:2.5rem;border-top:1px solid #8886;padding-top:1rem}"
    "form{display:grid;gap:.5rem;background:#8881;padding:.8rem;border-radius:.4rem}label{display:flex;gap:.6rem}"
    "input{flex:1;font:inherit}textarea{font:14px/1.4 ui-monospace,monospace}button{justify-self:start;font:inherit}"
    "output{white-space:pre-wrap;overflow:auto;max-height:24rem;font:14px/1.4 ui-monospace,monospace}"
    "output:empty{display:none}"
)
EXAMPLES: dict[str, Any] = {
    "text": "The animal didn't cross the street because it was too tired.",
    "q": "The animal didn't cross the street because it was too tired.",
    "beam": 4,
    "source": "en",
    "target": "de",
    "replace": [{"old": "tired", "new": "wide"}],
    "word": "it",
}
"""What the fields of a request contain at first, if they have no default and are required, or matter most."""
SHOWN = {"TranslateRequest": ("text", "beam"), "LibreTranslateRequest": ("q", "source", "target")}
"""Further fields shown at first, which have defaults."""


def docs_page(document: dict[str, Any]) -> str:
    """The OpenAPI document as an HTML page, with a form for each request."""
    schemas = document["components"]["schemas"]
    parts = ["<p>Every request can be tried here; the answer appears below it. "]
    parts.append('<a href="openapi.json">The same as an OpenAPI description.</a></p>')
    if "securitySchemes" in document["components"]:
        parts.append('<form><label>API key <input id="key" type="password" autocomplete="off"></label></form>')
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts += [
                f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation.get('summary', ''))}</p>",
                _fields(operation, schemas),
                _form(path, method, operation, schemas),
            ]
    return html_document("API documentation", "".join(parts), '<script type="module" src="assets/try_request.js">')


def html_document(title: str, body: str, script: str = "") -> str:
    """A small HTML page."""
    closing = "</script>" if script else ""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        '<link rel="icon" href="data:,">'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style><main><h1>{escape(title)}</h1>{body}'
        f"</main>{script}{closing}</html>"
    )


def _body_schema(operation: dict[str, Any], schemas: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Name and schema of an operation's body."""
    for content in operation.get("requestBody", {}).get("content", {}).values():
        name = content["schema"]["$ref"].rpartition("/")[2]
        return name, schemas[name]
    return None


def _fields(operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    rows = [
        (parameter["name"], parameter.get("description", ""), parameter["in"])
        for parameter in operation.get("parameters", [])
    ]
    if (body := _body_schema(operation, schemas)) is not None:
        rows += [(name, field.get("description", ""), "body") for name, field in body[1]["properties"].items()]
    items = "".join(
        f"<li><code>{escape(name)}</code> ({place}): {escape(meaning)}</li>" for name, meaning, place in rows
    )
    return f"<ul>{items}</ul>" if items else ""


def _form(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    inputs = [
        f'<label><code>{escape(parameter["name"])}</code><input name="{escape(parameter["name"])}" '
        f'data-in="{parameter["in"]}"{" required" if parameter.get("required") else ""}></label>'
        for parameter in operation.get("parameters", [])
    ]
    if (body := _body_schema(operation, schemas)) is not None:
        text = json.dumps(_example(*body), indent=2, ensure_ascii=False)
        rows = text.count("\n") + 1
        inputs.append(f'<textarea rows="{rows}" spellcheck="false" aria-label="Body">{escape(text)}</textarea>')
    return (
        f'<form data-method="{method.upper()}" data-path="{escape(path)}">{"".join(inputs)}'
        "<button>Send</button><output></output></form>"
    )


def _example(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A body to begin with: the required fields, and those that matter most."""
    shown = [*schema.get("required", ()), *SHOWN.get(name, ())] or [
        key for key in schema["properties"] if key in EXAMPLES
    ]
    defaults = {key: field.get("default") for key, field in schema["properties"].items()}
    return {key: EXAMPLES.get(key, defaults.get(key)) for key in dict.fromkeys(shown)}
