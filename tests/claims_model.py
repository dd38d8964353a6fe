"""A model of the claim protocol, small enough to visit every state it can get into.

Each document is settled by a process of its own. A step is what the store does at once: one bucket, one claim. Between
any two steps anybody else may come in; a process may die at any moment (it loses what it knows, and starts again), and
a lease may run out at any moment. docs/claims.md tells the protocol, tests/dedup/test_claims_model.py what must hold.

A number is (document, life): which of its registrations. `order` lists all numbers that matter, the most senior first.
Numbers come from blocks that processes take, so a new one may be senior or junior to any other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

Number = tuple[int, int]
Step = tuple[str, int, tuple[object, ...]]  # what, whose process, and its details


class Claim(NamedTuple):
    kind: str  # P pending, W won, K kept
    challengers: tuple[Number, ...] = ()


class Process(NamedTuple):
    """What one process knows."""

    at: str = "probe"  # probe, insert, meet, won, lose, dead, done
    number: Number | None = None
    todo: tuple[int, ...] = ()  # documents whose shared bucket is still to be entered, or left
    rivals: frozenset[Number] = frozenset()
    seen: int = 0
    outcome: int | None = None  # the document that is kept: itself, or the one it is a copy of


class State(NamedTuple):
    order: tuple[Number, ...]
    claims: tuple[tuple[Number, Claim], ...]
    buckets: frozenset[tuple[Number, int]]  # a number stands in the bucket that its document shares with another one
    processes: tuple[Process, ...]
    lives: tuple[int, ...]
    crashes: int  # that may still happen
    expiries: int

    def claim(self, number: Number) -> Claim | None:
        return dict(self.claims).get(number)


class Model:
    """The protocol over documents of which some are copies of each other."""

    def __init__(
        self, documents: int, copies: Sequence[tuple[int, int]], *, crashes: int = 0, expiries: int = 0
    ) -> None:
        self.near = {d: tuple(sorted({a + b - d for a, b in copies if d in (a, b)})) for d in range(documents)}
        start = tuple(Process() for _ in range(documents))
        self.start = State((), (), frozenset(), start, (0,) * documents, crashes, expiries)

    def steps(self, state: State) -> Iterator[tuple[Step, State]]:
        """Yield all that may happen next, and what it leads to."""
        for d, process in enumerate(state.processes):
            yield from getattr(self, f"_{process.at}")(state, d, process)
            if state.crashes and process.at not in ("done", "dead"):
                yield ("crash", d, ()), _with(state, d, Process("dead"), crashes=state.crashes - 1)
        if state.expiries:
            for number, claim in state.claims:
                if claim.kind != "K":
                    yield ("expire", number[0], (number,)), _set(state, number, None, expiries=state.expiries - 1)

    def _probe(self, state: State, d: int, process: Process) -> Iterator[tuple[Step, State]]:
        """PROBE: whoever is R to a kept page is its copy; whoever was kept itself, before a crash, is kept."""
        kept = {number[0] for number, claim in state.claims if claim.kind == "K"}
        if d in kept:
            yield ("kept before", d, ()), _with(state, d, Process("done", outcome=d))
            return
        for e in self.near[d]:
            if e in kept:
                yield ("copy", d, (e,)), _with(state, d, Process("done", outcome=e))
        # a probe may have read its bucket before the other was kept: going on is possible in any case
        number = (d, state.lives[d])
        lives = tuple(life + (k == d) for k, life in enumerate(state.lives))
        for place in range(len(state.order) + 1):
            order = (*state.order[:place], number, *state.order[place:])
            entering = Process("insert", number, todo=self.near[d])
            after = _with(state, d, entering, order=order, lives=lives)
            yield ("register", d, (number, place)), _set(after, number, Claim("P"))

    def _insert(self, state: State, d: int, process: Process) -> Iterator[tuple[Step, State]]:
        """INSERT and READ, bucket by bucket: enter it, and see who else stands there."""
        if not process.todo:
            yield ("inserted", d, ()), _with(state, d, process._replace(at="meet"))
            return
        e, *rest = process.todo
        there = {number for number, other in state.buckets if number[0] == e and other == d}
        after = process._replace(todo=tuple(rest), rivals=process.rivals | there)
        assert process.number is not None
        yield ("insert", d, (e,)), _with(state, d, after, buckets=state.buckets | {(process.number, e)})

    def _meet(self, state: State, d: int, process: Process) -> Iterator[tuple[Step, State]]:
        """Look at the rivals; WIN once there are none."""
        own = process.number
        assert own is not None
        for rival in sorted(process.rivals):
            claim = state.claim(rival)
            without = process._replace(rivals=process.rivals - {rival})
            if claim is None:
                yield ("void", d, (rival,)), _with(state, d, without)
            elif claim.kind == "K":
                yield ("lose", d, (rival,)), _with(state, d, Process("lose", own, self.near[d], outcome=rival[0]))
            elif claim.kind == "P" and state.order.index(own) < state.order.index(rival):
                challenged = claim._replace(challengers=(*claim.challengers, own))
                yield ("challenge", d, (rival,)), _set(_with(state, d, without), rival, challenged)
        if not process.rivals:
            claim = state.claim(own)
            if claim is None:
                yield ("lost", d, ()), _with(state, d, Process("lose", own, self.near[d]))
            elif len(claim.challengers) == process.seen:
                yield ("win", d, ()), _set(_with(state, d, process._replace(at="won")), own, Claim("W"))
            else:
                new = frozenset(claim.challengers[process.seen :])
                after = process._replace(rivals=new, seen=len(claim.challengers))
                yield ("challenged", d, ()), _with(state, d, after)

    def _won(self, state: State, d: int, process: Process) -> Iterator[tuple[Step, State]]:
        """COMMIT, once the bytes are on disk; where the claim is gone the bytes are taken back."""
        own = process.number
        assert own is not None
        claim = state.claim(own)
        if claim is None:
            yield ("take back", d, ()), _with(state, d, Process("lose", own, self.near[d]))
        else:
            assert claim.kind == "W"
            yield ("commit", d, ()), _set(_with(state, d, Process("done", outcome=d)), own, Claim("K"))

    def _lose(self, state: State, d: int, process: Process) -> Iterator[tuple[Step, State]]:
        """Leave: the buckets one by one, then the claim; with no outcome yet, begin anew."""
        own = process.number
        assert own is not None
        if process.todo:
            e, *rest = process.todo
            after = process._replace(todo=tuple(rest))
            yield ("leave", d, (e,)), _with(state, d, after, buckets=state.buckets - {(own, e)})
            return
        after = Process("probe") if process.outcome is None else Process("done", outcome=process.outcome)
        yield ("release", d, ()), _set(_with(state, d, after), own, None)

    def _dead(self, state: State, d: int, process: Process) -> Iterator[tuple[Step, State]]:
        """Start again: what the former life claimed is void; its bucket entries may stay."""
        after = _with(state, d, Process("probe"))
        for number, claim in state.claims:
            if number[0] == d and claim.kind != "K":
                after = _set(after, number, None)
        yield ("restart", d, ()), after

    def _done(self, state: State, d: int, process: Process) -> Iterator[tuple[Step, State]]:
        yield from ()


def _with(state: State, d: int, process: Process, **changes: object) -> State:
    processes = (*state.processes[:d], process, *state.processes[d + 1 :])
    return state._replace(processes=processes, **changes)


def _set(state: State, number: Number, claim: Claim | None, **changes: object) -> State:
    claims = dict(state.claims)
    claims.pop(number, None)
    if claim is not None:
        claims[number] = claim
    return state._replace(claims=tuple(sorted(claims.items())), **changes)


def simplified(state: State) -> State:
    """Return the same state without numbers that nobody will ever meet again, and with the others counted anew."""
    claims = {number for number, _ in state.claims}
    held = {number for p in state.processes for number in (*p.rivals, p.number) if number is not None}
    challengers = {number for _, claim in state.claims for number in claim.challengers}
    matter = claims | held | challengers
    names: dict[Number, Number] = {}
    lives = [0] * len(state.lives)
    for number in sorted(matter):
        names[number] = (number[0], lives[number[0]])
        lives[number[0]] += 1
    return State(
        order=tuple(names[n] for n in state.order if n in matter),
        claims=tuple(
            sorted((names[n], Claim(c.kind, tuple(names[x] for x in c.challengers))) for n, c in state.claims)
        ),
        buckets=frozenset((names[n], e) for n, e in state.buckets if n in claims | held),
        processes=tuple(
            p._replace(number=p.number and names[p.number], rivals=frozenset(names[n] for n in p.rivals))
            for p in state.processes
        ),
        lives=tuple(lives),
        crashes=state.crashes,
        expiries=state.expiries,
    )


def explore(model: Model) -> Mapping[State, Sequence[tuple[Step, State]]]:
    """Return every state that can be reached, with what may happen in it."""
    found: dict[State, list[tuple[Step, State]]] = {}
    waiting = deque([model.start])
    while waiting:
        state = waiting.popleft()
        if state in found:
            continue
        found[state] = [(step, simplified(after)) for step, after in model.steps(state)]
        waiting.extend(after for _, after in found[state] if after not in found)
    return found
