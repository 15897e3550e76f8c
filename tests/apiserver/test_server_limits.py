"""Clients without credentials, or too many clients, do not affect the others."""

import asyncio
import resource
import socket
import ssl
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from urllib.parse import urlsplit

import aiohttp
import pytest

from apiserver.raw_http import GUARD_SECONDS, ask, connect
from apiserver.sample_objects import CONFIGMAPS, PODS, configmap, pod
from apiserver.server_fixture import start_server
from holdfast.runtime.errors import TooManyRequests
from holdfast.runtime.settings import ServerLimits
from holdfast.server.user import ADMIN, ANONYMOUS, User
from holdfast.server.wire.connections import Connections
from holdfast.server.wire.https_listener import Listener
from holdfast.server.wire.in_flight import InFlightLimits
from tls_client import client_context

HALF_POST = f"POST {PODS} HTTP/1.1\nhost: HOST\ncontent-length: 3000000\n\n{{"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SHORT = 0.3
"""Seconds of a limit that a test waits for; a handshake on a busy machine takes less."""
NODE = User("system:node:a", ("system:nodes", "system:authenticated"))


@asynccontextmanager
async def server(tmp_path, **limits):
    async with start_server(tmp_path, limits=ServerLimits(**limits)) as running:
        yield running


async def test_a_refused_request_is_answered_before_its_body_comes(tmp_path):
    async with server(tmp_path, linger_seconds=0.05) as api, connect(api) as client:
        await client.send(HALF_POST)
        head = await client.head()
        assert head.startswith("HTTP/1.1 401")
        assert "connection: close" in head.lower()
        await client.rest()


async def test_a_forbidden_request_is_answered_before_its_body_comes(api):
    token = api.credentials.create_token(User("eve", ("system:authenticated",)))
    half = HALF_POST.replace("\n\n", f"\nauthorization: Bearer {token}\n\n")
    assert await ask(api, half) == 403


async def test_the_rest_of_a_rejected_body_is_not_parsed_as_a_header(tmp_path):
    few = {"header_bytes": 2000, "linger_seconds": 0.3}
    async with server(tmp_path, **few) as api, connect(api) as client:
        await client.send(HALF_POST)
        head = await client.head()
        with suppress(ConnectionError, ssl.SSLError):
            for _ in range(20):
                await client.send(b"a" * 1000)
                await asyncio.sleep(0)
        body = await client.rest()
        assert head.startswith("HTTP/1.1 401")
        assert len(body) == int(head.lower().split("content-length: ")[1].split()[0])


async def test_the_rest_of_a_refused_body_is_not_read(tmp_path):
    few = {"discarded_bytes": 10_000, "linger_seconds": 0.3}
    async with server(tmp_path, **few) as api, connect(api) as client:
        await client.send(HALF_POST.replace("3000000", "300000000"))
        assert await client.status() == 401
        sent = 0
        with suppress(ConnectionError, ssl.SSLError):
            async with asyncio.timeout(GUARD_SECONDS):
                while True:
                    await client.send(b"a" * 100_000)
                    sent += 100_000
        assert sent < 100_000_000  # more than the buffers of both sides


async def test_half_sent_anonymous_posts_do_not_refuse_the_admin(tmp_path):
    few = {"system_requests": 3, "anonymous_requests": 3}
    async with server(tmp_path, **few) as api, AsyncExitStack() as stack:
        for _ in range(20):
            client = await stack.enter_async_context(connect(api))
            await client.send(HALF_POST)
        assert (await api.call("GET", PODS)).status == 200


def test_requests_in_flight_are_counted_by_kind_of_user():
    in_flight = InFlightLimits(ServerLimits(
        system_requests=3, other_requests=3, user_requests=2, anonymous_requests=2
    ))  # fmt: skip
    for user, most in ((ANONYMOUS, 2), (User("eve"), 2), (User("bob"), 1)):
        entered = [in_flight.acquire(user) for _ in range(most)]
        with pytest.raises(TooManyRequests) as refused:
            in_flight.acquire(user)
        assert refused.value.details.retry_after_seconds == 1
        assert len(entered) == most
    for user in (NODE, NODE, ADMIN):
        held = in_flight.acquire(user)
    with pytest.raises(TooManyRequests):
        in_flight.acquire(ADMIN)
    held.release()
    in_flight.acquire(ADMIN)


async def test_bodies_in_memory_are_limited_by_user(tmp_path):
    async with server(tmp_path, user_body_bytes=100_000, other_body_bytes=150_000) as api:
        await grant_configmaps(api, "eve", "bob")
        async with half_body(api, "eve", 90_000), half_body(api, "bob", 60_000):
            async with session_of(api, "eve") as eve:
                big = configmap("big", x="x" * 20_000)
                refused = await api.call("POST", CONFIGMAPS, big, session=eve)
                assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            assert (await api.call("POST", CONFIGMAPS, big)).status == 201


async def test_answers_in_memory_are_limited_by_user(tmp_path):
    async with server(tmp_path, user_response_bytes=20_000_000) as api:
        await grant_configmaps(api, "eve")
        for number in range(16):
            await api.create(CONFIGMAPS, configmap(f"big-{number}", x="x" * 900_000))
        token = api.credentials.create_token(User("eve", ("system:authenticated",)))
        read = f"GET {CONFIGMAPS} HTTP/1.1\nhost: HOST\nauthorization: Bearer {token}\n\n"
        async with connect(api) as slow:
            slow.writer.transport.pause_reading()
            await slow.send(read)
            async with asyncio.timeout(GUARD_SECONDS):
                while not any(c.blocked_since for c in api.https_server.connections):
                    await asyncio.sleep(0.01)
            assert await ask(api, read) == 429
            assert (await api.call("GET", CONFIGMAPS)).status == 200
        async with asyncio.timeout(GUARD_SECONDS):
            while await ask(api, read) != 200:
                await asyncio.sleep(0.01)


async def test_a_body_over_the_limit_is_refused_by_its_length(api):
    huge = HALF_POST.replace("3000000", "3145729")
    assert await ask(api, huge, admin=True) == 413


async def test_a_body_that_does_not_come_is_given_up(tmp_path):
    async with server(tmp_path, body_seconds=SHORT) as api:
        assert await ask(api, HALF_POST, admin=True) == 504


@pytest.mark.parametrize("sent", ["", "GET /ap", "GET /api HTTP/1.1\nhost: HOST\nx-a: "])
async def test_a_header_that_does_not_come_closes_the_connection(tmp_path, sent):
    async with server(tmp_path, header_seconds=SHORT) as api:
        for admin in (False, True) if sent else (False,):
            async with connect(api, admin=admin) as client:
                await client.send(sent)
                assert await client.rest() == b""


async def test_a_handshake_that_does_not_come_closes_the_connection(tmp_path):
    async with server(tmp_path, handshake_seconds=SHORT) as api, connect(api, tls=False) as client:
        assert await client.rest() == b""


async def test_a_connection_with_credentials_may_be_idle_longer(tmp_path):
    async with (
        server(tmp_path, header_seconds=SHORT) as api,
        connect(api, admin=True) as admin,
        connect(api) as anonymous,
    ):
        await anonymous.rest()
        await admin.send("GET /version HTTP/1.1\nhost: HOST\n\n")
        assert await admin.status() == 200


async def test_a_watch_outlives_every_time_limit(tmp_path):
    limits = ("header_seconds", "body_seconds", "idle_seconds", "write_seconds")
    short = dict.fromkeys(limits, SHORT)
    async with server(tmp_path, **short) as api, api.watch(PODS) as watching:
        async with connect(api) as client:
            await client.rest()
        await api.create(PODS, pod("late"))
        assert (await watching.next())["object"]["metadata"]["name"] == "late"


async def test_a_client_that_does_not_read_is_cut_off(tmp_path, caplog):
    async with server(tmp_path, write_seconds=SHORT, header_seconds=SHORT) as api:
        for number in range(16):
            await api.create(CONFIGMAPS, configmap(f"big-{number}", x="x" * 900_000))
        async with connect(api, admin=True) as client:
            client.writer.transport.pause_reading()
            before = set(api.https_server.connections)
            await client.send(f"GET {CONFIGMAPS} HTTP/1.1\nhost: HOST\n\n")
            async with asyncio.timeout(GUARD_SECONDS):
                while before <= set(api.https_server.connections):
                    await asyncio.sleep(0.01)
        assert (await api.call("GET", PODS)).status == 200
    assert caplog.records == []


async def test_new_clients_take_the_place_of_the_oldest_without_credentials(tmp_path):
    async with server(tmp_path, unauthenticated_connections=8) as api, AsyncExitStack() as stack:
        async with connect(api, admin=True) as admin:
            clients = [await stack.enter_async_context(connect(api)) for _ in range(10)]
            assert await clients[0].rest() == b""
            await clients[-1].send("GET /healthz HTTP/1.1\nhost: HOST\n\n")
            assert await clients[-1].status() == 200
            await admin.send(f"GET {PODS} HTTP/1.1\nhost: HOST\n\n")
            assert await admin.status() == 200
        assert len(api.https_server.connections) <= 10


async def test_idle_connections_with_credentials_go_when_all_are_taken(tmp_path):
    async with server(tmp_path, connections=8) as api, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(api, admin=True)) for _ in range(12)]
        for client in clients[-3:]:
            await client.send("GET /version HTTP/1.1\nhost: HOST\n\n")
            assert await client.status() == 200
        assert len(api.https_server.connections) == 8


async def test_a_user_has_a_quarter_of_all_connections():
    connections = Connections(ServerLimits(), 16)
    opened = [connections.add(f"address-{now}", now) for now in range(6)]
    for connection in opened[:4]:
        connections.authenticate(connection, User("eve"))
    connections.authenticate(opened[4], User("eve"))
    assert [c.closed for c in opened[:5]] == [True, False, False, False, False]
    for connection in opened[1:5]:
        connection.requests = 1
    connections.authenticate(opened[5], User("eve"))
    assert opened[5].over_limit


async def test_a_connection_over_the_limit_is_closed_after_the_rejection(tmp_path):
    async with server(tmp_path, connections=8) as api, AsyncExitStack() as stack:
        token = api.credentials.create_token(User("eve", ("system:authenticated",)))
        head = f"host: HOST\nauthorization: Bearer {token}\n\n"
        allowed = f"POST {REVIEWS} HTTP/1.1\nexpect: 100-continue\ncontent-length: 9\n{head}"
        for _ in range(2):  # a quarter of all connections, each with a request in flight
            client = await stack.enter_async_context(connect(api))
            await client.send(allowed)
            assert (await client.head()).startswith("HTTP/1.1 100")
        async with connect(api) as client:
            await client.send(f"GET /version HTTP/1.1\n{head}")
            assert (await client.rest()).startswith(b"HTTP/1.1 429")


def test_an_address_takes_its_own_places_only():
    connections = Connections(ServerLimits(unauthenticated_connections=4), 16)
    first = [connections.add("a", 0.0) for _ in range(2)]
    other = connections.add("b", 0.0)
    connections.add("a", 0.0)
    assert (first[0].closed, first[1].closed, other.closed) == (True, False, False)


async def test_accepting_without_descriptors_waits_and_logs_once(api, monkeypatch, caplog):
    tries = []
    enough = asyncio.Event()
    original = Listener._accept_failed

    def counted(self, *args):
        tries.append(args)
        if len(tries) == 5:
            enough.set()
        original(self, *args)

    monkeypatch.setattr(Listener, "_accept_failed", counted)
    monkeypatch.setattr("holdfast.server.wire.https_listener._RETRY_SECONDS", 0.01)
    client = socket.socket()
    client.setblocking(False)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        where = urlsplit(api.url)
        await asyncio.get_running_loop().sock_connect(client, (where.hostname, where.port))
        await asyncio.wait_for(enough.wait(), GUARD_SECONDS)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        client.close()
    lines = [r for r in caplog.records if "cannot accept connections" in r.message]
    assert [line.exc_info for line in lines] == [None]
    assert (await api.call("GET", PODS)).status == 200


async def test_made_up_resources_do_not_grow_the_metrics(api):
    async def rows():
        return (await api.call("GET", "/metrics")).body.count(b"\n")

    async with aiohttp.ClientSession(connector=anonymous_connector(api)) as session:

        async def make_up(name):
            path = f"/apis/{name}.example.com/v1/{name}"
            answer = await api.call(
                "GET", path, headers={"impersonate-group": "a"}, session=session
            )
            assert answer.status in (400, 401)

        await make_up("first")
        await rows()
        before = await rows()
        for number in range(20):
            await make_up(f"a{number}")
    assert await rows() == before


def anonymous_connector(api):
    return aiohttp.TCPConnector(ssl=client_context(api.credentials, certificate=False))


@asynccontextmanager
async def session_of(api, name):
    token = api.credentials.create_token(User(name, ("system:authenticated",)))
    headers = {"authorization": f"Bearer {token}"}
    connector = anonymous_connector(api)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield session


@asynccontextmanager
async def half_body(api, name, length):
    """Start a request whose body does not end; memory for the body is reserved."""
    token = api.credentials.create_token(User(name, ("system:authenticated",)))
    head = f"POST {CONFIGMAPS} HTTP/1.1\nhost: HOST\nauthorization: Bearer {token}\n"
    async with connect(api) as client:
        await client.send(f"{head}expect: 100-continue\ncontent-length: {length}\n\n")
        assert await client.status() == 100
        yield


async def grant_configmaps(api, *users):
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rules = [{"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]}]
    await api.create(f"{rbac}/roles", {"metadata": {"name": "maps"}, "rules": rules})
    await api.create(f"{rbac}/rolebindings", {
        "metadata": {"name": "maps"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maps"},
        "subjects": [{"kind": "User", "name": user} for user in users],
    })  # fmt: skip
