"""The claim protocol holds in every state it can get into, and the scripts do what the model says.

The invariants of docs/claims.md, checked by visiting all interleavings of two and three documents, with processes that
die and leases that run out in between.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dedup.model import SketchParams
from dedup.store.client import Store
from dedup.store.index import Claim, NearIndex
from tests.claims_model import Model, Number, State, Step, explore
from tests.texts import document, edited, text

PAIR = [(0, 1)]
TRIANGLE = [(0, 1), (1, 2), (0, 2)]
CHAIN = [(0, 1), (1, 2)]  # 0 and 2 are copies of 1, and not of each other

WORLDS = {
    "two": Model(2, PAIR, crashes=1, expiries=1),
    "two that die twice": Model(2, PAIR, crashes=2),
    "two that are slow twice": Model(2, PAIR, expiries=2),
    "three": Model(3, TRIANGLE),
    "chain": Model(3, CHAIN),
    "chain, one dies": Model(3, CHAIN, crashes=1),
    "chain, one is slow": Model(3, CHAIN, expiries=1),
}


@functools.cache
def explored(world: str) -> Mapping[State, Sequence[tuple[Step, State]]]:
    return explore(WORLDS[world])


def kept(state: State) -> set[int]:
    return {number[0] for number, claim in state.claims if claim.kind == "K"}


@pytest.mark.parametrize("world", WORLDS)
def test_no_interleaving_breaks_the_invariants(world: str) -> None:
    """Never are two copies of each other kept, and at the end every copy is one of a kept page."""
    model = WORLDS[world]
    states = explored(world)
    ends = 0
    for state, steps in states.items():
        here = kept(state)
        assert not any(e in here for d in here for e in model.near[d]), state
        if all(process.at == "done" for process in state.processes):
            ends += 1
            for d, process in enumerate(state.processes):
                assert process.outcome in here
                assert process.outcome == d or process.outcome in model.near[d]
                assert (process.outcome == d) == (d in here)
        else:
            assert steps, f"stuck: {state}"
    assert ends


@pytest.mark.parametrize("world", ["two", "three", "chain, one dies"])
def test_nobody_waits_for_ever(world: str) -> None:
    """From every state all processes can get to their ends, without a lease running out and without another crash."""
    states = explored(world)
    before: dict[State, list[State]] = {}
    for state, steps in states.items():
        for (what, _, _), after in steps:
            if what not in ("crash", "expire"):
                before.setdefault(after, []).append(state)
    good = {state for state in states if all(process.at == "done" for process in state.processes)}
    waiting = list(good)
    while waiting:
        for state in before.get(waiting.pop(), []):
            if state not in good:
                good.add(state)
                waiting.append(state)
    assert len(good) == len(states)


class Mutant(Model):
    """The protocol with its challenge left out: a senior does not stop a junior that has already looked."""

    def _meet(self, state, d, process):  # type: ignore[no-untyped-def]
        for step, after in super()._meet(state, d, process):
            if step[0] == "challenge":
                unchanged = dict(state.claims)[step[2][0]]
                rest = tuple((n, unchanged if n == step[2][0] else c) for n, c in after.claims)
                yield step, after._replace(claims=rest)
            else:
                yield step, after


def test_the_explorer_finds_what_is_wrong() -> None:
    """Without challenges, two copies of each other can be kept: the explorer would see it."""
    model = Mutant(2, PAIR)
    assert any({0, 1} <= kept(state) for state in explore(model))


@pytest.mark.parametrize("seed", range(12))
async def test_the_scripts_do_what_the_model_says(store: Store, namespace: str, seed: int) -> None:
    """Along random walks through the model, every claim in the store is as the model has it."""
    rng = random.Random(seed)
    await Walk(store, namespace, Model(3, TRIANGLE, crashes=2, expiries=2), rng).run()


class Walk:
    """One way through the model, taken by the real index at the same time."""

    def __init__(self, store: Store, namespace: str, model: Model, rng: random.Random) -> None:
        self._store, self._namespace, self._model, self._rng = store, namespace, model, rng
        self._lives = 0
        self._documents = [document(d, edited(text(1), d)) for d in range(3)]
        self._index = [self._born(d) for d in range(3)]
        self._claims: dict[Number, Claim] = {}  # by the model's number

    def _born(self, d: int) -> NearIndex:
        self._lives += 1
        owner = b"doc%d%04d" % (d, self._lives)
        return NearIndex(self._store, SketchParams(), namespace=self._namespace, owner=owner, lease=600.0)

    async def run(self) -> None:
        state = self._model.start
        for _ in range(300):
            steps = list(self._model.steps(state))
            if not steps:
                break
            # the real index enters and leaves all buckets in one call: nobody comes in between
            busy = self._busy(state)
            here = [s for s in steps if busy is None or (s[0][1] == busy and s[0][0] not in ("crash", "expire"))]
            (what, d, details), after = self._rng.choice(here)
            if what == "register":
                claim = (await self._index[d].register([self._documents[d]]))[0]
                place = sum(self._claims[number].number < claim.number for number in state.order)
                number, after = next((s[2][0], to) for s, to in steps if s[:2] == (what, d) and s[2][1] == place)
                self._claims[number] = claim
            else:
                await self._do(what, d, details, after)
            state = after
        assert all(process.at == "done" for process in state.processes)
        for number, claim in self._claims.items():
            found = (await self._index[0].look([(claim.number, b"")]))[0]
            expected = state.claim(number)
            assert (found and found.kind) == (expected and expected.kind)

    def _busy(self, state: State) -> int | None:
        """Return who is in the middle of what the real index does in one call."""
        for d, process in enumerate(state.processes):
            if process.at in ("insert", "lose"):
                return d
        return None

    async def _do(self, what: str, d: int, details: tuple[Any, ...], after: State) -> None:
        index, process = self._index[d], after.processes[d]
        if what == "inserted":
            assert process.number is not None
            found = (await index.insert([self._claims[process.number]]))[0]
            expected = {self._claims[rival].number for rival in process.rivals}
            assert expected <= found  # void ones may stand there, too
        elif what == "challenge":
            own = self._claims[self._own(d)].number
            state = (await index.look([(self._claims[details[0]].number, own)]))[0]
            assert state is not None and own in state.challengers
        elif what == "win":
            won = (await index.win([self._seen(d, after)]))[0]
            assert won is not None and won.kind == "W"
        elif what == "challenged":
            held = (await index.win([self._claims[self._own(d)]]))[0]
            assert held is not None and held.kind == "P" and len(held.challengers) == process.seen
        elif what == "commit":
            assert await index.commit([self._claims[self._own(d)]]) == [True]
        elif what in ("lost", "take back"):
            assert await index.commit([self._claims[self._own(d)]]) == [False]
        elif what == "release":
            await index.release([self._claims[self._own(d)]])
        elif what == "expire":
            gone = self._claims[details[0]].number
            await self._store.run("release", [([index.keys.group_of(gone)], [gone])])
        elif what == "restart":
            self._index[d] = self._born(d)
            await self._index[d].open()

    def _own(self, d: int) -> Number:
        return max(number for number in self._claims if number[0] == d)

    def _seen(self, d: int, after: State) -> Claim:
        own = self._claims[self._own(d)]
        return Claim(own.document, own.number, after.processes[d].seen)
