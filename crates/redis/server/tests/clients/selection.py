"""Deselects the upstream tests that redis-py.txt names, each with its reason.

A pattern that no longer matches any test is an error: the list must not outlive its reasons.
"""

import fnmatch
import os

import pytest


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
