"""Charsets: the order of evidence, wrong declarations, and bytes that mean nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup import charset

RUSSIAN = "Утренний поезд опоздал на час, и дежурная по станции вынесла пассажирам горячий чай с сушками. "
CHINESE = "清晨的列车晚点了一个小时，站长给旅客们端来了热茶和点心，孩子们在月台上看雪。"
JAPANESE = "朝の列車は一時間おくれて着きました。駅員さんは熱いお茶を配り、子どもたちは雪を見ていました。"
FRENCH = "Le train du matin est arrivé en retard près de la forêt, où l’été s’achève déjà à petits pas. "
SAMPLES = [
    (RUSSIAN, "windows-1251"),
    (RUSSIAN, "koi8-r"),
    (CHINESE, "gb18030"),
    (JAPANESE, "shift_jis"),
    (FRENCH, "windows-1252"),
]


@pytest.mark.parametrize(("text", "name"), SAMPLES)
def test_header_is_obeyed(text: str, name: str) -> None:
    """The charset of the Content-Type header decodes the body."""
    assert charset.decode(text.encode(name), f"text/html; charset={name}") == text


@pytest.mark.parametrize(("text", "name"), SAMPLES)
def test_meta_is_obeyed(text: str, name: str) -> None:
    """Without a header, the page's own meta tag decodes the body."""
    assert text in charset.decode(f'<meta charset="{name}"><p>{text}'.encode(name))


@pytest.mark.parametrize(("text", "name"), SAMPLES)
def test_undeclared_is_detected(text: str, name: str) -> None:
    """Two sentences of running text are enough to tell the usual charsets apart."""
    assert text in charset.decode(f"<div class='a'><p>{text}</p></div>".encode(name))


def test_detection_looks_past_markup() -> None:
    """A long ASCII head and inline script don't drown the text that gives the charset away."""
    head = b"<style>" + b"p { color: red } " * 2000 + b"</style>"
    assert RUSSIAN in charset.decode(head + RUSSIAN.encode("koi8-r"))


def test_header_wins_over_meta() -> None:
    """Where header and meta disagree, the header is believed."""
    body = b'<meta charset="koi8-r">' + RUSSIAN.encode("cp1251")
    assert RUSSIAN in charset.decode(body, "text/html; charset=windows-1251")


def test_mark_wins_over_header() -> None:
    """A byte order mark beats the header, as in browsers, and is not part of the text."""
    body = b"\xef\xbb\xbf" + "чай".encode()
    assert charset.decode(body, "text/html; charset=windows-1251") == "чай"


@pytest.mark.parametrize("name", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_by_mark_or_header(name: str) -> None:
    """UTF-16 is read with a mark, and without one where the header declares it."""
    assert charset.decode(RUSSIAN.encode(name), "text/html; charset=utf-16") == RUSSIAN


def test_utf16_meta_refutes_itself() -> None:
    """A page whose ASCII meta tag claims UTF-16 is not UTF-16."""
    assert charset.decode(b'<meta charset="utf-16">tea') == '<meta charset="utf-16">tea'


def test_unknown_label_asks_the_next() -> None:
    """A label nobody knows is passed over for the meta tag."""
    body = b'<meta charset="windows-1251">' + RUSSIAN.encode("cp1251")
    assert RUSSIAN in charset.decode(body, "text/html; charset=klingon-8")


@pytest.mark.parametrize("name", ["rot13", "base64", "hex", "zlib", "undefined", "unicode_escape", "utf-7", "idna"])
def test_codecs_that_are_no_charsets(name: str) -> None:
    """Python codecs that are not charsets of the web are unknown labels."""
    assert charset.decode(b"a\\u0041 +AGE- \xe9", f"text/html; charset={name}") == "a\\u0041 +AGE- é"


def test_a_few_bad_bytes_stay_utf8() -> None:
    """Declared UTF-8 with a stray byte keeps its letters and shows one replacement character."""
    text = charset.decode(RUSSIAN.encode() * 3 + b"\xff", "text/html; charset=utf-8")
    assert text == RUSSIAN * 3 + "\ufffd"


def test_mostly_bad_utf8_is_detected() -> None:
    """Declared UTF-8 that is windows-1251 all through is read as windows-1251."""
    assert charset.decode(RUSSIAN.encode("cp1251"), "text/html; charset=utf-8") == RUSSIAN


def test_valid_utf8_outweighs_a_wrong_header() -> None:
    """A server's default charset does not spoil a page that is plainly UTF-8."""
    assert charset.decode(RUSSIAN.encode(), "text/html; charset=iso-8859-1") == RUSSIAN


def test_short_doubtful_body_obeys_its_header() -> None:
    """Two characters that happen to be valid UTF-8 too are what the header says."""
    assert charset.decode("联通".encode("gb18030"), "text/html; charset=gb2312") == "联通"


def test_utf8_is_not_copied() -> None:
    """A body that is UTF-8 already comes back as the same object."""
    body = RUSSIAN.encode()
    assert charset.utf8(body, "text/html") is body


def test_plain_text_ignores_meta() -> None:
    """In a text file a meta tag is text about a charset, not a declaration."""
    body = b'<meta charset="koi8-r"> ' + RUSSIAN.encode("cp1251") * 2
    assert RUSSIAN in charset.decode(body, markup=False)


@given(
    st.binary(max_size=400),
    st.sampled_from(["", "text/html", "text/html; charset=", "a; charset=utf-16", "\0"]),
)
def test_never_raises(body: bytes, content_type: str) -> None:
    """Any bytes under any header decode, and `utf8` is valid UTF-8."""
    charset.utf8(body, content_type).decode("utf-8")


@given(st.text(max_size=60), st.binary(max_size=60))
def test_any_label(label: str, body: bytes) -> None:
    """No charset label can break decoding."""
    charset.decode(body, f"text/html; charset={label}")
