"""/docs in Chromium: its forms send requests, also below a root path."""

import json

from glassformer.server.api_keys import APIKey
from glassformer.server.translation_service import open_served_model
from tests.browser.driving import drive, needs_chromium
from tests.server.running import running

pytestmark = needs_chromium


def test_the_forms_send_requests_with_the_key():
    key, weight = "k" * 16, "encoder.layers.0.self_attention.q_proj.weight"
    with running(open_served_model("street"), [APIKey(key)], root_path="/below") as server:
        forms = [["/api/translate", {}], ["/languages", {}], ["/metrics", {}], ["/api/weight/{name}", {"name": weight}]]
        shown = drive(f"http://127.0.0.1:{server.port}/below", "docs", {"key": key, "forms": forms})
    translated, languages, metrics, sent = (shown[path] for path, _ in forms)
    [translation] = json.loads(translated.partition("\n")[2])["translations"]
    assert translation["text"] == "Das Tier überquerte die Straße nicht, weil es zu müde war."
    assert json.loads(languages.partition("\n")[2])[0]["name"] == "English"
    assert "glassformer_build_info" in metrics
    assert sent.startswith("200")
    assert "bytes" in sent
