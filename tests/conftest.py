"""Options and hooks for all tests."""

import gc
import importlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kubectl_program import find_kubectl, problem_of
from soak_size import SEED
from worker_scheduling import Scheduling

# Thousands of small clusters come and go. Cycles are collected after the test that left them, while
# they are in the processor's cache; inside a test only if it leaves very many.
gc.set_threshold(50_000, 20, 10)
COLLECT_FROM = 4_000
"""How many new objects a test must have left to be followed by a collection."""
# On loaded cores an example may take any time. Other examples in every run belong to `make soak`.
settings.register_profile(
    "suite",
    deadline=None,
    derandomize=SEED == 0,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


NOT_COLLECTED = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiregistration.k8s.io",
        "autoscaling",
        "certificates.k8s.io",
        "discovery.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "rbac.authorization.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    }
)
"""API groups of which no object in a test with a Harness has or is an owner."""
NOT_COLLECTED_EITHER = frozenset(
    {
        "cronjobs",
        "daemonsets",
        "endpoints",
        "limitranges",
        "persistentvolumes",
        "podtemplates",
        "replicationcontrollers",
        "secrets",
    }
)
"""Resources of other groups of which this is true."""
MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 2 << 30


def pytest_configure():
    """Put temporary files into memory if there is enough: disks take long to sync many stores.

    What a killed process has written stays in either place. Workers and the processes of tests
    need no BLAS threads either, which the program leaves out too.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    if shutil.disk_usage(MEMORY).free >= MEMORY_NEEDED:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # look at TMPDIR again


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Return the scheduler of ``--dist loadgroup``; xdist has the others."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_addoption(parser):
    """Add ``--record``, which writes the recorded answers again."""
    parser.addoption("--record", action="store_true", help="write the recorded answers again")


def pytest_collection(session):
    """Import the test modules in another order in each worker of a run of all tests.

    pytest rewrites the assertions of a module at its first import and caches the result. In the
    same order all workers would rewrite every module at the same time.
    """
    worker, config = os.environ.get("PYTEST_XDIST_WORKER", ""), session.config
    if not worker or config.args != config.getini("testpaths"):
        return
    folder = Path(__file__).parent
    paths = [path.relative_to(folder) for path in sorted(folder.glob("*/**/test_*.py"))]
    paths = [path for path in paths if path.parts[0] != "parity"]
    first = int(worker[2:]) * len(paths) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for path in paths[first:] + paths[:first]:
        with suppress(Exception, pytest.skip.Exception):  # the collection will report it
            importlib.import_module(".".join(path.with_suffix("").parts))


def pytest_collection_modifyitems(items):
    """Put long tests first, so that none of them runs alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish():
    """Modules and tests stay: the collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol():
    """Collect the cycles that a test has left."""
    done = yield
    if gc.get_count()[0] > COLLECT_FROM:
        gc.collect(0)
    return done


def pytest_runtest_setup(item):
    """Skip tests marked ``kubectl`` without a kubectl; fail them if it is too old."""
    if item.get_closest_marker("kubectl") is None:
        return
    path = find_kubectl()
    if problem := problem_of(path):
        (pytest.fail if path else pytest.skip)(problem)


@pytest.fixture(scope="session", autouse=True)
def the_scheduler_has_only_its_rights():
    """Refuse the scheduler of every Harness what deploy/rbac does not grant it."""
    from holdfast.testing.harness import Harness
    from rights import RestrictedTransport

    unrestricted = Harness.server_transport

    def server_transport(harness, user):
        transport = unrestricted(harness, user)
        if user != "system:kube-scheduler":
            return transport
        return RestrictedTransport(transport, "holdfast-scheduler", harness.failures.append)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Harness, "server_transport", server_transport)
        yield


@pytest.fixture(scope="session", autouse=True)
def the_garbage_collector_follows_fewer_kinds():
    """Spare every Harness a third of its informers: those of kinds that it has no work for."""
    from holdfast.controllers import garbage_collector

    every = garbage_collector.deletable_resources

    def fewer(served):
        return tuple(
            r for r in every(served)
            if r.group not in NOT_COLLECTED and r.plural not in NOT_COLLECTED_EITHER
        )  # fmt: skip

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(garbage_collector, "deletable_resources", fewer)
        yield
