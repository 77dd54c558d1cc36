"""Self-contained HTML page: the explorer's script (`explorer.js`, built from frontend/src/page) and one trace.

The content security policy allows this one script, by its hash, and no network access at all.
"""

import base64
import hashlib
import os
from functools import cache
from html import escape
from pathlib import Path

from glassformer.atomic_directory import replace_file
from glassformer.errors import InputError
from glassformer.inspection.tracing.trace import Trace

SCRIPT = Path(__file__).with_name("explorer.js")
MAX_PAGE_BYTES = 25_000_000
"""Default maximum size of a page: larger ones open slowly and cannot be mailed."""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="glassformer {version}">
<link rel="icon" href="data:,">
<title>{title}</title>
</head>
<body>
<div id="page" class="page"></div>
<noscript>
<h1>{title}</h1>
<p dir="auto">{source}</p>
<p dir="auto">{target}</p>
<p>This page shows the activations of a model and needs JavaScript; it loads nothing from the network.</p>
</noscript>
<script type="application/octet-stream" id="glassformer-trace">{packed}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def page_of(trace: Trace, packed_trace: bytes, name: str = "") -> str:
    """The explorer's HTML page for a packed trace."""
    script_text = script()
    return _PAGE.format(
        policy=_policy(script_text),
        version=escape(trace.about.version),
        title=escape(f"{trace.text} · {name or 'glassformer'}"),
        source=escape(trace.text),
        target=escape(trace.translation),
        packed=base64.b64encode(packed_trace).decode(),
        script=script_text,
    )


def write_page(page: str, path: str | os.PathLike[str], largest: int | None) -> None:
    """Write a page to a file, atomically; raise if it is larger than the limit."""
    content = page.encode()
    refuse_large(len(content), largest)
    replace_file(Path(path), content)


def refuse_large(size: int, largest: int | None) -> None:
    """Raise if a page is larger than the limit."""
    if largest is not None and size > largest:
        raise InputError(
            f"The page would have {size:,} bytes; the maximum is {largest:,}. Use a shorter text or the detail "
            "`attention`, or allow a larger page (--large; in Python, largest=None)."
        )


@cache
def script() -> str:
    """The explorer's script, escaped for embedding: no `</script` and no `<!--`."""
    text = SCRIPT.read_text(encoding="utf-8")
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--").replace("\r", "")


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
