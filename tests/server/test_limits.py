"""Every limit is enforced, with its status, a one-sentence error, and Retry-After."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from glassformer.server.limits import Limits
from tests.server.running import LONG, MUCH, WORDS, endless, running, served, until_closed


def asks(**options):
    return {"text": WORDS} | options


@pytest.mark.parametrize(
    ("limits", "path", "body", "status"),
    [
        ({"texts": 3}, "/api/translate", {"text": ["a"] * 4}, 413),
        ({"texts": 3}, "/translate", {"q": ["a"] * 4, "target": "de"}, 413),
        ({"characters": 100}, "/api/translate", {"text": ["x" * 60] * 2}, 413),
        ({"characters": 100}, "/translate", {"q": "x" * 101}, 413),
        ({"characters": 100}, "/api/explore", {"text": "x" * 101}, 413),
        ({"beam": 4}, "/api/translate", asks(beam=5), 422),
        ({"n_best": 4}, "/api/translate", asks(n_best=5), 422),
        ({"beam_tokens": 40}, "/api/translate", asks(beam=4), 413),
        ({"beam_tokens": 40}, "/api/translate", asks(beam=1, n_best=4), 413),
        ({"beam_tokens": 40}, "/translate", {"q": WORDS}, 413),
        ({"n_best": 4}, "/translate", {"q": WORDS, "alternatives": 4}, 422),
        ({"waiting": 3}, "/api/translate", {"text": [WORDS] * 4}, 413),
        ({"trace_tokens": 4}, "/api/explore", {"text": WORDS}, 413),
        ({"trace_tokens": 9}, "/api/explore", {"text": "the street", "target": WORDS}, 413),
        ({"trace_beam": 2}, "/api/explore", {"text": WORDS, "beam": 3}, 422),
        ({"trace_bytes": 1000}, "/api/explore", {"text": WORDS}, 413),
        ({"body_bytes": 100}, "/api/translate", asks(source="x" * 100), 413),
    ],
)
def test_more_than_allowed_is_refused(limits, path, body, status):
    with running(served(), **limits) as server:
        server.post(path, body).is_refused(status)


def test_just_as_much_as_allowed_is_not():
    with running(served(), texts=2, characters=2 * len(WORDS), beam=2, n_best=2) as server:
        assert server.post("/api/translate", {"text": [WORDS] * 2, "beam": 2, "n_best": 2}).status == 200


def test_work_is_bounded_by_tokens_and_beam_not_by_characters_alone():
    """20,000 combining marks, two tokens each in the model `street`, took the model 26 seconds with beam 16."""
    one, other = (len(served().translator.tokenizer.encode(text, "source")) for text in (WORDS, "the"))
    with running(served(), beam_tokens=2 * one) as server:
        assert server.post("/api/translate", asks(beam=2)).status == 200
        message = server.post("/api/translate", {"text": [WORDS, "the"], "beam": 2}).is_refused(413)
        assert f"has {one + other} tokens; with beam size 2, at most {one} are allowed. Send less text" in message
        assert server.metric('tokens_total{side="source"}') == one  # nothing of the refused request was searched
        assert server.post("/api/translate", {"text": [WORDS, "the"], "beam": 1}).status == 200


def test_alternatives_are_told_their_own_limit():
    with running(served(), n_best=4) as server:
        message = server.post("/translate", {"q": WORDS, "alternatives": 9}).is_refused(422)
        assert message == "alternatives = 9 is larger than this server's limit of 3."


def test_what_is_not_asked_for_is_never_too_much():
    with running(served(), beam=2, trace_beam=2) as server:
        assert server.post("/api/translate", asks()).status == 200
        assert server.post("/translate", {"q": WORDS, "target": "de"}).status == 200
        assert server.post("/api/explore", asks()).json()["search"]["size"] == 2


def test_a_large_body_is_refused_before_it_is_read():
    """A gigabyte is announced, and the response comes after the first bytes."""
    with running(served()) as server:
        head = b"POST /api/translate HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000000\r\n\r\n{"
        with server.connect() as one:
            one.sendall(head)
            assert one.recv(65536).startswith(b"HTTP/1.1 413")


def test_a_body_that_says_no_length_is_cut_where_it_becomes_too_long():
    with running(served(), body_bytes=10_000) as server, server.connect() as one:
        one.sendall(b"POST /api/translate HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        chunk = b"%x\r\n%s\r\n" % (1000, b"x" * 1000)
        sent = 0
        try:
            while sent < 10_000_000:
                one.sendall(chunk)
                sent += 1000
        except OSError:
            pass  # it closed the connection
        assert sent < 10_000_000
        assert until_closed(one)[:12] in (b"HTTP/1.1 413", b"")


def test_an_ordinary_client_hears_why_its_large_body_was_refused():
    with running(served()) as server:
        assert "bytes" in server.post("/api/translate", {"text": "x" * 2_000_000}).is_refused(413)


def test_too_long_a_wait_is_a_503_and_what_was_under_way_is_given_up():
    with running(endless(), seconds=0.5) as server:
        answer = server.post("/api/translate", MUCH)
        assert "0.5 seconds" in answer.is_refused(503)
        assert int(answer.headers["retry-after"]) >= 1
        server.until(lambda: server.metric("searching_sentences") == 0)
        assert server.metric("waiting_sentences") == 0
        assert server.metric('given_up_total{why="late"}') == 1


def test_one_request_more_than_there_are_places_is_a_503():
    with running(endless(), requests=1) as server, server.leaving("/api/translate", MUCH):
        server.until(lambda: server.metric("requests_under_way") == 1)
        answer = server.post("/api/translate", asks())
        answer.is_refused(503)
        assert answer.headers["retry-after"] == "1"
        assert server.metric("requests_under_way") == 1  # it did not wait for the other to end
        assert server.get("/health").status == 200  # answered during the work


def test_a_client_that_leaves_frees_its_place():
    """Both in the queue and in the search; the next one does not wait for cancelled work."""
    with running(endless(), requests=1) as server:
        for _ in range(3):
            with server.leaving("/api/translate", MUCH):
                server.until(lambda: server.metric("searching_sentences") >= 1)
            server.until(lambda: server.metric("requests_under_way") == 0)
            server.until(lambda: server.metric("searching_sentences") == 0)
            assert server.metric("waiting_sentences") == 0
        assert server.metric('given_up_total{why="left"}') == 3
        assert server.post("/api/translate", asks()).status == 200


def test_a_full_queue_is_a_503():
    with running(endless(), waiting=15) as server, server.leaving("/api/translate", MUCH):
        server.until(lambda: server.metric("waiting_sentences") >= 10)
        answer = server.post("/api/translate", {"text": [WORDS] * 15})
        assert "waiting" in answer.is_refused(503)
        assert "retry-after" in answer.headers


def test_a_short_question_does_not_wait_for_a_long_one_of_another_client():
    """The longest waiting request is next, whatever its search settings."""
    with running(served()) as server, ThreadPoolExecutor(2) as pool:
        long = pool.submit(server.post, "/api/translate", {"text": [LONG] * 15, "beam": 16, "n_best": 16})
        server.until(lambda: server.metric("searching_sentences") >= 1 or long.done())
        assert server.post("/api/translate", asks(beam=1)).status == 200
        assert not long.done()
        assert long.result().status == 200


def test_more_traces_than_places_are_refused():
    with running(endless(), tracing=1, tracing_waiting=1) as server:
        long = {"text": " ".join([WORDS] * 5), "beam": 8}
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda _: server.post("/api/explore", long), range(6)))
        statuses = sorted(answer.status for answer in answers)
        assert set(statuses) == {200, 503}
        assert statuses.count(503) >= 2


def test_the_store_keeps_what_it_may_and_the_oldest_goes():
    with running(served(), traces=3) as server:
        ids = [server.post("/api/explore", {"text": "the street"}).json()["id"] for _ in range(3)]
        assert server.get(f"/api/explore/{ids[0]}").status == 200  # now it is the most recently used
        ids.append(server.post("/api/explore", {"text": "the street"}).json()["id"])
        assert server.metric("traces") == 3
        assert [server.get(f"/api/explore/{one}").status for one in ids] == [200, 404, 200, 200]


def test_the_store_is_bounded_in_bytes():
    with running(served()) as server:
        server.post("/api/explore", {"text": WORDS})
        size = server.metric("trace_bytes")
        assert size > 0
    with running(served(), trace_bytes=int(2.5 * size)) as server:
        for _ in range(4):
            server.post("/api/explore", {"text": WORDS})
        assert server.metric("traces") == 2
        assert server.metric("trace_bytes") == 2 * size


def test_large_answers_are_bounded():
    with running(served(), answer_bytes=2000) as server:
        identity = server.post("/api/explore", {"text": WORDS}).json()["id"]
        assert "rows=" in server.get(f"/api/explore/{identity}/tensor/logits").is_refused(413)
        assert server.get(f"/api/explore/{identity}/tensor/logits?rows=0&cols=0:9").status == 200
        server.get(f"/api/explore/{identity}/trace").is_refused(413)
        server.get("/api/weight/encoder.embedding.weight").is_refused(413)
        assert server.get("/api/weight/encoder.embedding.weight?to=8x8").status == 200


def test_too_many_changes_are_refused():
    with running(served(), changes=3) as server:
        identity = server.post("/api/explore", {"text": "the street"}).json()["id"]
        one = {"kind": "remove-head", "at": "encoder.layers.0.self_attention", "head": 0}
        found = server.post(f"/api/explore/{identity}/what-if", {"changes": [one] * 2})
        assert found.status == 200
        server.post(f"/api/explore/{found.json()['id']}/what-if", {"changes": [one] * 2}).is_refused(413)


HALF = b"POST /api/translate HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{"


def test_one_connection_more_than_allowed_is_a_503():
    with running(served(), connections=5) as server:
        several = [server.connect() for _ in range(5)]
        try:
            for one in several:
                one.sendall(HALF)
            time.sleep(0.3)  # until all have been read
            with server.connect(5) as sixth:
                answer = until_closed(sixth)
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"retry-after" in answer
        finally:
            for one in several:
                one.close()
        server.until(lambda: _is_open(server))


def test_bodies_of_all_clients_together_are_bounded():
    with running(served(), reading_bytes=50_000) as server:
        several = [server.connect() for _ in range(3)]
        try:
            for one in several:
                one.sendall(HALF.replace(b"length: 100", b"length: 30000") + b" " * 15_000)
            ask = partial(server.post, "/api/translate", asks(text="x" * 10_000))
            server.until(lambda: ask().status == 503)  # once all that the others sent has been read
            answer = ask()
            answer.is_refused(503)
            assert answer.headers["retry-after"] == "1"
        finally:
            for one in several:
                one.close()
        server.until(lambda: server.post("/api/translate", asks()).status == 200)


def test_silent_connections_make_room():
    """Connections without a request are closed first."""
    with running(served(), connections=5) as server:
        several = [server.connect() for _ in range(5)]
        time.sleep(1)
        try:
            server.until(lambda: server.post("/api/translate", asks()).status == 200)
            for _ in range(4):
                assert server.post("/api/translate", asks()).status == 200
        finally:
            for one in several:
                one.close()


def _is_open(server) -> bool:
    try:
        return server.get("/health").status == 200
    except OSError:
        return False


def test_hundreds_of_stalled_clients_do_not_stop_the_others():
    with running(served(), body_seconds=1000) as server:  # they stay until the end
        several = [server.connect() for _ in range(300)]
        try:
            for one in several:
                one.sendall(b"POST /api/translate HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
            assert server.get("/health").status == 200
            assert server.post("/api/translate", asks()).status == 200
        finally:
            for one in several:
                one.close()


def test_stopping_finishes_what_it_can_and_refuses_the_rest():
    answers: list = []
    with running(endless(), stop_seconds=1) as server:
        thread = threading.Thread(target=lambda: answers.append(server.post("/api/translate", MUCH)))
        thread.start()
        server.until(lambda: server.metric("searching_sentences") >= 1)
        began = time.process_time()
    assert time.process_time() - began < 20  # its work would take minutes
    thread.join(120)
    [answer] = answers
    assert "stopping" in answer.is_refused(503)


def test_every_bound_has_a_meaning_and_is_above_zero():
    for name in Limits.model_fields:
        assert Limits.meanings()[name], name
        assert getattr(Limits(), name) > 0
