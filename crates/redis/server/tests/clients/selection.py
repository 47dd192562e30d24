"""Deselects the upstream tests that redis-py.txt names, each with its reason, and keeps tests apart.

A pattern that no longer matches any test is an error: the list must not outlive its reasons.

Some tests look for their own clients in CLIENT LIST. A thread of the server may still list a client
whose connection the test before has closed. So each test begins when no such client is left.
"""

import fnmatch
import os
import time

import pytest

# How long a test waits for the clients of earlier tests. A client that stays longer is not waited for again.
SECONDS_TO_CLOSE = 5

url = None
probe = None
lingering = set()


def rules():
    with open(os.environ["REDIS_PY_SELECTION"], encoding="utf-8") as lines:
        for line in lines:
            line = line.split("#", 1)[0].strip()
            if line:
                patterns, reason = line.split(":", 1)
                yield patterns.split(), reason.strip()


def pytest_collection_modifyitems(config, items):
    used, kept, dropped = set(), [], []
    all_patterns = [pattern for patterns, _ in rules() for pattern in patterns]
    for item in items:
        name = getattr(item, "originalname", None) or item.name
        hits = [pattern for pattern in all_patterns if fnmatch.fnmatchcase(name, pattern)]
        used.update(hits)
        (dropped if hits else kept).append(item)
    idle = [pattern for pattern in all_patterns if pattern not in used]
    if idle:
        raise pytest.UsageError(f"no test matches {idle} in redis-py.txt")
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept


def others():
    """Returns the ids of all other clients. A test may have closed the connection of this one."""
    import redis

    global probe
    for is_last in (False, True):
        try:
            if probe is None:
                probe = redis.Redis.from_url(url, single_connection_client=True)
            own = str(probe.client_id())
            return {client["id"] for client in probe.client_list()} - {own}
        except redis.ConnectionError:
            probe = None
            if is_last:
                raise


def pytest_configure(config):
    global url
    url = config.getoption("--redis-url")


def pytest_runtest_setup(item):
    end = time.monotonic() + SECONDS_TO_CLOSE
    while left := others() - lingering:
        if time.monotonic() > end:
            lingering.update(left)
            return
        time.sleep(0.001)
