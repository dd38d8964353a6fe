"""From fingerprints to outcomes: the claim protocol of DESIGN decision 3, over batches of documents.

R(a, b) is "they share a bucket and verify() agrees". Whatever the number of workers, kept pages are pairwise not R
and every copy is R to a kept page. The steps:

    PROBE     whoever is R to a kept page is its copy, and nothing is written
    REGISTER  the others announce themselves: S[d] = pending
    INSERT    they enter their buckets, and see who else is there
    rivals    kept: d is its copy.  Pending and junior: challenge it.  Pending and senior, or won: wait
    WIN       pending -> won, unless somebody challenged d since it looked
    COMMIT    once the bytes are on disk: won -> kept

A junior waits for a senior and a winner waits for nobody, so no two wait for each other; winners are made durable
before anybody waits. Within a batch the order of the input decides: a page enters only when every earlier page
that it matches has its outcome, so a batch ends as if its pages had come one by one.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import numpy as np

from dedup.model import Match, Stored
from dedup.settings import SketchSettings
from dedup.sketch import verify
from dedup.store.buckets import near_buckets
from dedup.store.index import Claim, Document, NearIndex
from dedup.store.records import State

Keep = Callable[[Sequence[Document]], Awaitable[None]]

_FIRST_WAIT, _LONGEST_WAIT = 0.002, 0.25


class Novel(msgspec.Struct, frozen=True):
    """Nobody has it: the page is kept."""


class Copy(msgspec.Struct, frozen=True):
    """The page is a copy of a kept one."""

    of: Stored
    match: Match
    since: float = math.inf  # when the other was kept; pages of the same batch come last, in their order


Outcome = Novel | Copy


class Judge:
    """Settles documents against one index."""

    def __init__(self, index: NearIndex, settings: SketchSettings) -> None:
        self._index = index
        self._settings = settings
        self._min_words = min(words for words, _ in index.params.widths)

    async def settle(self, documents: Sequence[Document], keep: Keep, take_back: Keep) -> list[Outcome]:
        """Return the outcome of each document, in order.

        `keep` makes the pages of winners durable before they are committed; `take_back` undoes it for those whose
        claim was lost in between.
        """
        earlier = self._matches_within(documents)
        known = await self._kept_matches(documents)
        again = [d for d, found in zip(documents, known, strict=True) if isinstance(found, Novel)]
        if again:
            await keep(again)  # committed before a crash, which may have cost their bytes
        outcomes: dict[int, Outcome] = {}
        while len(outcomes) < len(documents):
            contenders: list[int] = []
            for i in range(len(documents)):
                if i in outcomes or any(j not in outcomes for j in earlier[i]):
                    continue
                found = known[i]
                if isinstance(found, Novel):
                    outcomes[i] = found
                    continue
                here = [Copy(documents[j].stored, m) for j, m in earlier[i].items() if isinstance(outcomes[j], Novel)]
                if found or here:
                    outcomes[i] = _best([*found, *here])
                else:
                    contenders.append(i)
            if contenders:
                # later pages of this round may match these: they wait for the next one
                settled = await self._contest([documents[i] for i in contenders], keep, take_back)
                outcomes.update(zip(contenders, settled, strict=True))
        return [outcomes[i] for i in range(len(documents))]

    def _verify(self, document: Document, other: Stored) -> Match | None:
        s = self._settings
        return verify(
            document.fingerprint,
            other,
            threshold=s.threshold,
            max_distance=s.max_distance,
            floor=s.floor,
            min_words=self._min_words,
        )

    def _matches_within(self, documents: Sequence[Document]) -> list[dict[int, Match]]:
        """Return for each document the earlier documents of this batch that it is R to."""
        matches: list[dict[int, Match]] = [{} for _ in documents]
        if len(documents) < 2:
            return matches
        hashes = np.concatenate([d.buckets for d in documents])
        owner = np.repeat(np.arange(len(documents)), [len(d.buckets) for d in documents])
        order = np.argsort(hashes, kind="stable")
        hashes, owner = hashes[order], owner[order]
        near = [near_buckets(d.buckets) for d in documents]
        probes = np.concatenate(near)
        asker = np.repeat(np.arange(len(documents)), [len(row) for row in near])
        left, right = np.searchsorted(hashes, probes, "left"), np.searchsorted(hashes, probes, "right")
        # everybody meets itself; only what meets another is worth a look
        others = (right - left > 1) | ((right > left) & (owner[np.minimum(left, len(owner) - 1)] != asker))
        pairs = {
            (i, int(j)) for i, a, b in zip(asker[others], left[others], right[others], strict=True) for j in owner[a:b]
        }
        for i, j in sorted((int(i), j) for i, j in pairs):
            if j < i and (match := self._verify(documents[i], documents[j].stored)) is not None:
                matches[i][j] = match
        return matches

    async def _kept_matches(self, documents: Sequence[Document]) -> list[Novel | list[Copy]]:
        """Return for each document the kept pages it is R to, or Novel where it was kept itself before a crash."""
        candidates = await self._index.probe(documents)
        ids = sorted(set().union(*candidates)) if candidates else []
        states = dict(zip(ids, await self._index.look((id, b"") for id in ids), strict=True))
        kept = {id: state for id, state in states.items() if state is not None and state.kind == "K"}
        return [
            self._kept_match(d, {id: kept[id] for id in c if id in kept})
            for d, c in zip(documents, candidates, strict=True)
        ]

    def _kept_match(self, document: Document, kept: dict[bytes, State]) -> Novel | list[Copy]:
        found: list[Copy] = []
        for id, state in kept.items():
            stored = self._index.decode(state.record)
            if id == document.id and _same_page(document, stored):
                return Novel()
            if (match := self._verify(document, stored)) is not None:
                found.append(Copy(stored, match, state.since))
        return found

    async def _contest(self, documents: Sequence[Document], keep: Keep, take_back: Keep) -> list[Outcome]:
        """Return the outcome of documents that no kept page and no document of this batch is R to, so far."""
        contest = _Contest(self._index, self._verify, documents)
        await contest.enter(documents)
        wait = _FIRST_WAIT
        while contest.open:
            winners = await contest.round()
            if winners:
                await keep([claim.document for claim in winners])
                lost = await contest.commit(winners)
                if lost:
                    await take_back(lost)
                    await contest.enter(lost)
                wait = _FIRST_WAIT
            elif contest.open:
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)
        return [contest.outcomes[d.id] for d in documents]


class _Contest:
    """The arena: documents that are registered and not settled yet."""

    def __init__(
        self,
        index: NearIndex,
        verify: Callable[[Document, Stored], Match | None],
        documents: Sequence[Document],
    ) -> None:
        self._index = index
        self._verify = verify
        self._ours = {d.id for d in documents}
        self._rivals: dict[bytes, set[bytes]] = {}
        self.open: dict[bytes, Claim] = {}
        self.outcomes: dict[bytes, Outcome] = {}

    async def enter(self, documents: Sequence[Document]) -> None:
        """REGISTER and INSERT."""
        registered = await self._index.register(documents)
        entering: list[Document] = []
        for document, claim in zip(documents, registered, strict=True):
            if isinstance(claim, Stored):  # kept by this very page before a crash: it wins and is written again
                self.open[document.id], self._rivals[document.id] = Claim(document, 0, 0), set()
            else:
                self.open[document.id] = claim
                entering.append(document)
        for document, found in zip(entering, await self._index.insert(entering), strict=True):
            self._rivals[document.id] = found - self._ours

    async def round(self) -> list[Claim]:
        """Look at all rivals, settle the losers, and return who has won."""
        await self._meet_rivals()
        free = [claim for id, claim in self.open.items() if not self._rivals[id]]
        winners: list[Claim] = []
        anew: list[Document] = []
        for claim, state in zip(free, await self._index.win(free), strict=True):
            if state is not None and state.kind in ("W", "K"):
                winners.append(claim)
            elif state is not None and state.kind == "P":
                self.open[claim.document.id] = msgspec.structs.replace(claim, version=state.version)
                self._rivals[claim.document.id] = set(state.challengers) - self._ours
            else:  # the lease ran out and somebody said so
                anew.append(claim.document)
        if anew:
            await self.enter(anew)
        return winners

    async def _meet_rivals(self) -> None:
        pairs = [(claim, rival) for id, claim in self.open.items() for rival in self._rivals[id]]
        states = await self._index.look((rival, b"") for _, rival in pairs)
        copies: dict[bytes, list[Copy]] = {}
        juniors: list[tuple[Claim, bytes]] = []
        for (claim, rival), state in zip(pairs, states, strict=True):
            if (match := self._match(claim, state)) is None:
                self._rivals[claim.document.id].discard(rival)
                continue
            assert state is not None
            if state.kind == "K":
                copy = Copy(self._index.decode(state.record), match, state.since)
                copies.setdefault(claim.document.id, []).append(copy)
            elif state.kind == "P" and claim.document.id < rival:
                juniors.append((claim, rival))
        challenged = await self._index.look((rival, claim.document.id) for claim, rival in juniors)
        for (claim, rival), state in zip(juniors, challenged, strict=True):
            challenged_it = state is not None and state.kind == "P" and claim.document.id in state.challengers
            if challenged_it or state is None or state.kind == "V":
                # its WIN will now see us; one that won or was kept meanwhile stays a rival
                self._rivals[claim.document.id].discard(rival)
        losers = [self.open.pop(id) for id in copies]
        for claim in losers:
            self.outcomes[claim.document.id] = _best(copies[claim.document.id])
        if losers:
            await self._index.release(losers)

    def _match(self, claim: Claim, state: State | None) -> Match | None:
        if state is None or state.kind == "V":
            return None
        return self._verify(claim.document, self._index.decode(state.record))

    async def commit(self, winners: Sequence[Claim]) -> list[Document]:
        """COMMIT; return those whose claim was lost meanwhile."""
        lost: list[Document] = []
        for claim, kept in zip(winners, await self._index.commit(winners), strict=True):
            if kept:
                self.outcomes[claim.document.id] = Novel()
                del self.open[claim.document.id]
            else:
                lost.append(claim.document)
        return lost


def _same_page(document: Document, stored: Stored) -> bool:
    return stored.url == document.stored.url and stored.exact == document.stored.exact


def _best(copies: Sequence[Copy]) -> Copy:
    """Return which of several kept pages it is a copy of: one with the same text, else the one kept first.

    The first, not the closest: pages kept later don't change which cluster a text belongs to.
    """
    return min(copies, key=lambda c: (c.match.how != "exact", c.since))
