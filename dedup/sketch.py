"""Content to Fingerprint, and the relation R: which two fingerprints are copies of each other.

The shingle width follows the length: long texts are told apart by runs of 5 words, short ones by runs of 3:
one changed word in a short text would otherwise break most of its shingles. Signatures of different widths
cannot be compared, so a text a little shorter than a boundary is sketched on both sides of it. A little is
enough: two texts whose Jaccard similarity is t have at least t times as many shingles, and so about t times
as many words, the one as the other. With `overlap` below the threshold, of two twins on either side of a
boundary the shorter has both sketches.

SimHash (Charikar 2002) is always over the smallest width, so that it compares over all lengths.

Invariant: R is symmetric and depends on the two fingerprints and the thresholds alone; the same words give
the same fingerprint on every machine.
"""

from __future__ import annotations

from dedup import minhash, simhash
from dedup.model import U64, Content, Fingerprint, Match, Sketch, SketchParams, Stored
from dedup.text import polynomial, shingles

_WIDTHS = SketchParams().widths
_BITS = SketchParams().bits


def sketch(content: Content, params: SketchParams) -> Fingerprint:
    """Return the fingerprint of a page's content; digests alone, and SimHash 0, when it has no words."""
    words = content.words
    smallest = min(width for _, width in params.widths)
    runs = {1: words}
    by_width = {smallest: shingles(words, smallest, runs)}
    sketches = []
    for width in widths_for(len(words), params):
        if width not in by_width:
            by_width[width] = shingles(words, width, runs)
        sketches.append(_sketch(by_width[width], width, params))
    exact = digest(content.whole)
    same = content.words is content.whole
    return Fingerprint(
        exact=exact,
        content=exact if same else digest(words),
        simhash=simhash.simhash64(by_width[smallest]),
        words=len(words),
        sketches=tuple(sketches),
    )


def widths_for(words: int, params: SketchParams) -> tuple[int, ...]:
    """Return the shingle widths a text of so many words is sketched with, the smallest boundary first.

    >>> [widths_for(n, SketchParams()) for n in (6, 7, 10, 139, 140, 200)]
    [(), (3,), (3,), (3,), (3, 5), (5,)]
    """
    chosen = []
    boundaries = sorted(params.widths)
    for i, (boundary, width) in enumerate(boundaries):
        end = boundaries[i + 1][0] if i + 1 < len(boundaries) else words + 1
        if params.overlap * boundary <= words < end:
            chosen.append(width)
    return tuple(chosen)


def digest(words: U64) -> bytes:
    """Return 8 bytes that stand for a text's words and their order."""
    return polynomial(words).to_bytes(8, "little")


def verify(
    a: Fingerprint | Stored,
    b: Fingerprint | Stored,
    *,
    threshold: float = 0.75,
    max_distance: int = simhash.MAX_DISTANCE,
    floor: float = 0.5,
    min_words: int = _WIDTHS[0][0],
    bits: int = _BITS,
) -> Match | None:
    """Return why a and b are copies of each other, or None; verify(a, b) equals verify(b, a).

    Below `min_words` words only equal texts count, unless the other one is longer. SimHash alone does not
    decide: it needs a Jaccard similarity of at least `floor`, as a few heavy shingles can carry its votes.
    `bits` is SketchParams.bits of the index both were made for.
    """
    if a.exact == b.exact:
        return Match("exact", "same text", 0, 1.0)
    if a.content == b.content and min(a.words, b.words):  # of pages stripped to nothing, nothing is equal
        return Match("exact", "same text once stripped", 0, 1.0)
    estimate = similarity(a, b, bits)
    if estimate is None or max(a.words, b.words) < min_words:
        return None
    distance = simhash.hamming(a.simhash, b.simhash)
    if distance <= max_distance and estimate >= floor:
        return Match("simhash", f"simhash distance {distance} <= {max_distance}", distance, round(estimate, 4))
    if estimate >= threshold:
        rule = f"minhash jaccard {estimate:.2f} >= {threshold:g}"
        return Match("minhash", rule, distance, round(estimate, 4))
    return None


def similarity(a: Fingerprint | Stored, b: Fingerprint | Stored, bits: int = _BITS) -> float | None:
    """Return the best estimate of the Jaccard similarity over the widths in common; None without one."""
    ours, theirs = dict(_packed(a)), dict(_packed(b))
    estimates = [minhash.jaccard(ours[w], theirs[w], bits) for w in ours if w in theirs]
    return minhash.clip(max(estimates)) if estimates else None


def _packed(x: Fingerprint | Stored) -> tuple[tuple[int, bytes], ...]:
    if isinstance(x, Stored):
        return x.packed
    return tuple((s.width, s.packed) for s in x.sketches)


def _sketch(runs: U64, width: int, params: SketchParams) -> Sketch:
    values = minhash.signature(runs, params.slots, params.seed)
    return Sketch(
        width=width,
        packed=minhash.pack(values, params.bits),
        bands=minhash.bands(values, params.bands, params.rows),
    )
