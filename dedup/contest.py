"""The arena of the claim protocol: documents of one worker that are registered and not settled yet.

A document enters under a number that nobody ever had, and leaves it kept, or void for good. Whoever loses a claim (its
lease ran out while the process stood still) enters again under another number. docs/claims.md has the whole argument.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

import msgspec

from dedup.model import Match, Stored
from dedup.store.index import Claim, Document, NearIndex
from dedup.store.records import State


class Novel(msgspec.Struct, frozen=True):
    """Nobody has it: the page is kept."""


class Copy(msgspec.Struct, frozen=True):
    """The page is a copy of a kept one."""

    of: Stored
    match: Match
    since: tuple[float, bytes] = (math.inf, b"")  # when the other was kept; pages of the same batch come last, in order


Outcome = Novel | Copy
Verify = Callable[[Document, Stored], Match | None]


class Contest:
    """Brings documents to their outcomes: `enter` or `watch`, then `round` and `commit` while it goes on."""

    def __init__(self, index: NearIndex, verify: Verify, won: Iterable[Claim] = ()) -> None:
        self._index = index
        self._verify = verify
        self._rivals: dict[bytes, set[bytes]] = {}
        self._won = list(won)
        self._outside: dict[bytes, tuple[Document, set[bytes]]] = {}
        self.open: dict[bytes, Claim] = {claim.document.id: claim for claim in self._won}
        self.outcomes: dict[bytes, Outcome] = {}

    async def enter(self, documents: Sequence[Document]) -> None:
        """REGISTER, then INSERT and READ."""
        if not documents:
            return
        claims = await self._index.register(documents)
        self.open.update((claim.document.id, claim) for claim in claims)
        for claim, found in zip(claims, await self._index.insert(claims), strict=True):
            self._rivals[claim.document.id] = found - self._ours()

    def watch(self, document: Document, winners: Iterable[bytes]) -> None:
        """Let a document wait outside, unseen, for who has won and is R to it: nearly always it will be their copy."""
        self._outside[document.id] = (document, set(winners))

    @property
    def goes_on(self) -> bool:
        """Tell whether there are documents without an outcome."""
        return bool(self.open or self._outside)

    def _ours(self) -> set[bytes]:
        return {claim.number for claim in self.open.values()}

    async def round(self) -> list[Claim]:
        """Look at all rivals, settle the losers, and return who has won."""
        if self._won:  # nobody waits while a winner is not durable
            winners, self._won = self._won, []
            return winners
        await self._look_from_outside()
        await self._meet_rivals()
        free = [claim for id, claim in self.open.items() if not self._rivals[id]]
        winners, lost = [], []
        for claim, state in zip(free, await self._index.win(free), strict=True):
            if state is None:  # the lease ran out and somebody said so
                lost.append(claim)
            elif state.kind == "P":
                seen = len(state.challengers)
                self.open[claim.document.id] = msgspec.structs.replace(claim, seen=seen)
                self._rivals[claim.document.id] = set(state.challengers[claim.seen :]) - self._ours()
            else:
                winners.append(claim)
        await self.enter_anew(lost)
        return winners

    async def enter_anew(self, lost: Sequence[Claim]) -> None:
        """Let those whose claim was lost stand again."""
        if lost:
            await self._index.release(lost)
            self._leave(lost)
            await self.enter([claim.document for claim in lost])

    async def _look(self, pairs: Sequence[tuple[Document, bytes]]) -> list[Copy | State | None]:
        """Return for each document and rival a Copy if the rival is kept, its state if it is open, else None."""
        states = await self._index.look((rival, b"") for _, rival in pairs)
        return [
            None if state is None else self._seen(document, rival, state)
            for (document, rival), state in zip(pairs, states, strict=True)
        ]

    def _seen(self, document: Document, rival: bytes, state: State) -> Copy | State | None:
        stored = self._index.decode(state.record)
        match = self._verify(document, stored)
        if match is None:
            return None
        return Copy(stored, match, (state.since, rival)) if state.kind == "K" else state

    async def _look_from_outside(self) -> None:
        pairs = [(document, rival) for document, rivals in self._outside.values() for rival in rivals]
        copies: dict[bytes, list[Copy]] = {}
        for (document, rival), seen in zip(pairs, await self._look(pairs), strict=True):
            if seen is None:
                self._outside[document.id][1].discard(rival)
            elif isinstance(seen, Copy):
                copies.setdefault(document.id, []).append(seen)
        for id, found in copies.items():
            self.outcomes[id] = best(found)
            del self._outside[id]
        alone = [document for document, rivals in self._outside.values() if not rivals]
        for document in alone:
            del self._outside[document.id]
        await self.enter(alone)

    async def _meet_rivals(self) -> None:
        pairs = [(claim, rival) for id, claim in self.open.items() for rival in self._rivals[id]]
        seen_by = await self._look([(claim.document, rival) for claim, rival in pairs])
        copies: dict[bytes, list[Copy]] = {}
        juniors: list[tuple[Claim, bytes]] = []
        for (claim, rival), seen in zip(pairs, seen_by, strict=True):
            if seen is None:
                self._rivals[claim.document.id].discard(rival)
            elif isinstance(seen, Copy):
                copies.setdefault(claim.document.id, []).append(seen)
            elif seen.kind == "P" and claim.number < rival:
                juniors.append((claim, rival))
        await self._challenge(juniors)
        losers = [self.open[id] for id in copies]
        if losers:
            await self._index.release(losers)
            for claim in losers:
                self.outcomes[claim.document.id] = best(copies[claim.document.id])
            self._leave(losers)

    async def _challenge(self, juniors: Sequence[tuple[Claim, bytes]]) -> None:
        states = await self._index.look((rival, claim.number) for claim, rival in juniors)
        for (claim, rival), state in zip(juniors, states, strict=True):
            if state is None or (state.kind == "P" and claim.number in state.challengers):
                # its WIN will now see us; one that won or was kept meanwhile stays a rival
                self._rivals[claim.document.id].discard(rival)

    async def commit(self, winners: Sequence[Claim]) -> list[Claim]:
        """COMMIT; return those whose claim was lost meanwhile."""
        done = await self._index.commit(winners)
        kept = [claim for claim, is_kept in zip(winners, done, strict=True) if is_kept]
        self.outcomes.update((claim.document.id, Novel()) for claim in kept)
        self._leave(kept)
        return [claim for claim, is_kept in zip(winners, done, strict=True) if not is_kept]

    def _leave(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            del self.open[claim.document.id]
            self._rivals.pop(claim.document.id, None)

    @contextlib.asynccontextmanager
    async def leases(self) -> AsyncIterator[None]:
        """Renew the leases of all that are open, for as long as the block lasts and this process is alive."""

        async def renewing() -> None:
            while True:
                await asyncio.sleep(self._index.lease / 3)
                await self._index.renew(list(self.open.values()))

        task = asyncio.create_task(renewing())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def best(copies: Sequence[Copy]) -> Copy:
    """Return which of several kept pages it is a copy of: one with the same text, else the one kept first.

    The first, not the closest: pages kept later don't change which cluster a text belongs to.
    """
    return min(copies, key=lambda c: (c.match.how != "exact", c.since))
