"""From fingerprints to outcomes: the claim protocol of DESIGN decision 3, over batches of documents.

R(a, b) is "they share a bucket and verify() agrees". Whatever the number of workers, kept pages are pairwise not R
and every copy is R to a kept page. The steps (docs/claims.md says why they are enough):

    PROBE     whoever is R to a kept page is its copy, and nothing is written
    REGISTER  the others announce themselves: S[d] = pending
    INSERT    they enter their buckets, and see who else is there
    rivals    kept: d is its copy.  Pending and junior: challenge it.  Pending and senior, or won: wait
    WIN       pending -> won, unless somebody challenged d since it looked
    COMMIT    once the bytes are on disk: won -> kept

A standalone server does the first five in one script for whoever meets nobody, which is nearly every novel page. A
page that is R to one that has won waits for its end before it registers.

A junior waits for a senior and a winner waits for nobody, so no two wait for each other; winners are made durable
before anybody waits. Within a batch the order of the input decides: a page enters only when every earlier page
that it matches has its outcome, so a batch ends as if its pages had come one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from dedup.contest import Contest, Copy, Novel, Outcome, best
from dedup.model import Match, Stored
from dedup.settings import SketchSettings
from dedup.sketch import verify
from dedup.store.buckets import meetings
from dedup.store.index import Claim, Document, Found, NearIndex
from dedup.store.records import State

__all__ = ["Copy", "Judge", "Keep", "Novel", "Outcome"]

Keep = Callable[[Sequence[Document]], Awaitable[None]]

_FIRST_WAIT, _LONGEST_WAIT = 0.002, 0.25


class _Known(msgspec.Struct, frozen=True):
    """What the first look at the index says of a document."""

    copies: list[Copy] = []
    kept_before: bool = False  # by this very page, before a crash
    itself: Claim | None = None  # a claim of this very page, whose answer was lost on its way
    won: Claim | None = None
    strangers: frozenset[bytes] = frozenset()  # all whom it met, where it is R to none of them
    winners: frozenset[bytes] = frozenset()  # whom it is R to, and who have won, where it is R to no kept page


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
        known = await self._first_look(documents, earlier)
        again = [d for d, found in zip(documents, known, strict=True) if found.kept_before]
        if again:
            await keep(again)  # committed before a crash, which may have cost their bytes
        outcomes: dict[int, Outcome] = {}
        while len(outcomes) < len(documents):
            contenders: list[int] = []
            for i, found in enumerate(known):
                if i in outcomes or any(j not in outcomes for j in earlier[i]):
                    continue
                here = [Copy(documents[j].stored, m) for j, m in earlier[i].items() if isinstance(outcomes[j], Novel)]
                if found.kept_before:
                    outcomes[i] = Novel()
                elif found.copies or here:
                    outcomes[i] = best([*found.copies, *here])
                else:
                    contenders.append(i)
            if contenders:
                # later pages of this round may match these: they wait for the next one
                settled = await self._contest([(documents[i], known[i]) for i in contenders], keep, take_back)
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
        for i, j in meetings([document.buckets for document in documents]):
            if (match := self._verify(documents[i], documents[j].stored)) is not None:
                matches[i][j] = match
        return matches

    async def _first_look(self, documents: Sequence[Document], earlier: Sequence[Mapping[int, Match]]) -> list[_Known]:
        """PROBE for all; on a standalone server, whoever meets nobody comes back as a winner."""
        one_step = not self._index.store.cluster
        free = [i for i, matches in enumerate(earlier) if one_step and not matches]
        bound = [i for i, matches in enumerate(earlier) if matches or not one_step]
        claims, found = await asyncio.gather(
            self._index.claim([documents[i] for i in free]), self._index.probe([documents[i] for i in bound])
        )
        answers = dict(zip(free, claims, strict=True))
        known = await self._known(documents, answers | _found(bound, found))
        # whoever was only compared with equal texts, and is no copy of them
        rest = [i for i in free if i not in known]
        found = await self._index.probe([documents[i] for i in rest])
        known |= await self._known(documents, _found(rest, found))
        # nothing goes on with the claim of a former life: it leaves, and enters again if it must
        former = [Claim(d, self._index.former.pop(d.id)) for d in documents if d.id in self._index.former]
        await self._index.release([*former, *(k.itself for k in known.values() if k.itself is not None)])
        # whoever met only strangers claims once more without them: one step instead of three
        again = [i for i in free if known[i].strangers]
        claims = await self._index.claim([documents[i] for i in again], [known[i].strangers for i in again])
        known |= {i: _Known(won=one) for i, one in zip(again, claims, strict=True) if isinstance(one, Claim)}
        return [known[i] for i in range(len(documents))]

    async def _known(self, documents: Sequence[Document], answers: Mapping[int, Claim | Found]) -> dict[int, _Known]:
        """Return what the states of all that were found say; not for those that must be looked for further."""
        numbers = sorted(
            {number for answer in answers.values() if isinstance(answer, Found) for number in answer.numbers}
        )
        states = dict(zip(numbers, await self._index.look((number, b"") for number in numbers), strict=True))
        known: dict[int, _Known] = {}
        for i, answer in answers.items():
            if isinstance(answer, Claim):
                known[i] = _Known(won=answer)
                continue
            one = self._compared(documents[i], {number: states[number] for number in answer.numbers})
            if answer.all or one.copies or one.kept_before:
                known[i] = one
        return known

    def _compared(self, document: Document, candidates: Mapping[bytes, State | None]) -> _Known:
        copies: list[Copy] = []
        itself: Claim | None = None
        winners: set[bytes] = set()
        alone = True
        for number, state in candidates.items():
            if state is None:
                continue
            if state.page == document.id:
                if state.kind == "K":
                    return _Known(kept_before=True)
                itself = Claim(document, number)
            elif state.kind == "K":
                stored = self._index.decode(state.record)
                if (match := self._verify(document, stored)) is not None:
                    copies.append(Copy(stored, match, (state.since, number)))
            elif self._verify(document, self._index.decode(state.record)) is not None:
                alone = False  # a rival
                if state.kind == "W":
                    winners.add(number)
        if copies or itself is not None or not alone:
            return _Known(copies=copies, itself=itself, winners=frozenset(winners))
        return _Known(strangers=frozenset(candidates))

    async def _contest(
        self, contenders: Sequence[tuple[Document, _Known]], keep: Keep, take_back: Keep
    ) -> list[Outcome]:
        """Return the outcome of documents that no kept page and no document of this batch is R to, so far."""
        contest = Contest(self._index, self._verify, [known.won for _, known in contenders if known.won is not None])
        async with contest.leases():
            await contest.enter([d for d, known in contenders if known.won is None and not known.winners])
            for document, known in contenders:
                if known.won is None and known.winners:
                    contest.watch(document, known.winners)
            wait = _FIRST_WAIT
            while contest.goes_on:
                winners = await contest.round()
                if winners:
                    await keep([claim.document for claim in winners])
                    lost = await contest.commit(winners)
                    if lost:
                        await take_back([claim.document for claim in lost])
                        await contest.enter_anew(lost)
                    wait = _FIRST_WAIT
                elif contest.goes_on:
                    await asyncio.sleep(wait)
                    wait = min(2 * wait, _LONGEST_WAIT)
        return [contest.outcomes[document.id] for document, _ in contenders]


def _found(which: Sequence[int], numbers: Sequence[set[bytes]]) -> dict[int, Claim | Found]:
    return {i: Found(some) for i, some in zip(which, numbers, strict=True)}
