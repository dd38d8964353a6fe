"""What a server's refusal means: whether it will pass, and what a person can do about it.

Nothing here repeats a password: the client's messages name hosts and commands only, and URLs are masked.
"""

from __future__ import annotations

import re

from redis import exceptions as refused

from dedup.errors import DiskFull, StoreError, WinnowError

TROUBLE = (refused.RedisError, refused.RedisClusterException, OSError)

_PASSING = (
    refused.ConnectionError,  # also a server that is loading its data
    refused.TimeoutError,
    refused.ClusterDownError,
    refused.MasterDownError,
    refused.ReadOnlyError,  # we speak to what was the primary until a moment ago
    refused.TryAgainError,
    refused.SlotNotCoveredError,
    refused.MovedError,
    refused.AskError,
    OSError,
)
_PASSING_WORDS = ("NOREPLICAS", "UNBLOCKED", "LOADING", "CLUSTERDOWN", "slots are not covered", "cannot be connected")
_LASTING = (refused.AuthenticationError, refused.AuthorizationError)
_LASTING_WORDS = ("CERTIFICATE_VERIFY_FAILED", "CERTIFICATE_REQUIRED", "certificate required")


def passes(error: Exception) -> bool:
    """Return whether the same call may work in a while, with nothing changed on our side."""
    if isinstance(error, _LASTING) or any(word in str(error) for word in _LASTING_WORDS):
        return False
    return isinstance(error, _PASSING) or any(word in str(error) for word in _PASSING_WORDS)


def explain(error: Exception, store: str, *, cluster: bool) -> WinnowError:
    """Return an error that names the store, the cause and the fix."""
    where, text = f"the store at {store}", str(error)
    if foreign := re.search(r"FOREIGN (\S+)", text):
        return StoreError(
            f"the key {foreign[1]} in {store} is not Winnow's: another program writes into this namespace. Choose "
            "another index.namespace, or remove this index with `winnow index drop`"
        )
    for kinds, words, advice in _KNOWN:
        if isinstance(error, kinds) and (not words or any(word in text for word in words)):
            return StoreError(f"{where} {advice.format(text=text)}")
    if "MISCONF" in text and "No space" in text:
        return DiskFull(f"{where} has no room left on its disk: free some space, then run the same command again")
    if cluster and "Cluster mode is not enabled" in text:
        return StoreError(f"{where} is no Cluster; name it with redis:// instead of redis+cluster://")
    if isinstance(error, refused.RedisClusterException):
        return StoreError(f"{where} does not work as a Cluster: {text}; check the URL, and `CLUSTER INFO` on its nodes")
    if isinstance(error, OSError | refused.ConnectionError | refused.TimeoutError):
        why = text or type(error).__name__
        if cluster:
            return StoreError(
                f"{where} is a Cluster with a node that does not answer: {why}; see `CLUSTER INFO` and bring the "
                "missing node back"
            )
        tls = ""
        if store.startswith("rediss"):  # a reset may overtake the server's word on why it hung up
            tls = " Does this port speak TLS? If it wants a certificate from us: set store.cert_file and key_file"
        return StoreError(f"{where} does not answer: {why}; is it running and reachable?{tls}")
    return StoreError(f"{where} refused a command: {text}")


_ANY: tuple[type[Exception], ...] = (Exception,)
_RIGHTS = (
    "does not let this user do that: {text}; its ACL must allow eval, evalsha, time and info, plain reads and writes, "
    "and the keys of index.namespace (docs/index.md has the list)"
)

_KNOWN: tuple[tuple[tuple[type[Exception], ...], tuple[str, ...], str], ...] = (
    (
        _ANY,
        ("NOAUTH", "WRONGPASS", "Authentication required", "invalid username-password", "any password configured"),
        "wants another user or password: {text}; write it as redis://USER:PASSWORD@HOST:PORT/0",
    ),
    ((refused.NoPermissionError,), (), _RIGHTS),
    (_ANY, ("ACL failure in script",), _RIGHTS),
    (
        _ANY,
        ("OOM", "used memory > 'maxmemory'"),  # the client takes the code off the answer
        "is out of memory (maxmemory): nothing is lost; give it more, then run the same command again",
    ),
    (
        _ANY,
        ("Hostname mismatch", "IP address mismatch"),
        "shows a certificate for another host: {text}; name it in the URL as its certificate does, or set "
        "store.check_hostname = false",
    ),
    (
        _ANY,
        ("CERTIFICATE_VERIFY_FAILED",),
        "shows a certificate that is not trusted: {text}; name its CA in store.ca_file",
    ),
    (
        _ANY,
        ("CERTIFICATE_REQUIRED", "certificate required"),
        "wants a certificate from us: set store.cert_file and key_file",
    ),
    ((refused.BusyLoadingError,), (), "is still loading its data; try again in a moment"),
    (
        _ANY,
        ("CLUSTERDOWN", "cluster is down", "Hash slot not served", "slots are not covered"),
        "is a Cluster that does not serve all slots: {text}; see `CLUSTER INFO` and bring the missing node back",
    ),
    (
        _ANY,
        ("unknown command", "ERR Unknown Redis command"),
        "lacks a command that Winnow needs: {text}; it runs Lua scripts by EVAL and EVALSHA on Redis 7.0+ or Valkey",
    ),
)
