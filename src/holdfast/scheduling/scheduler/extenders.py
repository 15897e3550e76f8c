"""Call the extenders: filter, prioritize, process preemption, bind.

Extenders that filter are called one after the other, each with the nodes that the ones before
allowed; those that prioritize are called at the same time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from holdfast.api.scheme import NODES, PODS
from holdfast.client.client import Client
from holdfast.client.endpoint import Endpoint, Timeouts
from holdfast.client.http import HttpTransport
from holdfast.client.informer import Informer
from holdfast.client.transport import Request, Response, write_check_of
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import BadConfiguration, HoldfastError, Unavailable
from holdfast.scheduling.engine.decision import all_tiers
from holdfast.scheduling.engine.extender_results import ExtenderResults
from holdfast.scheduling.engine.feasible_rows import Feasible
from holdfast.scheduling.framework.extender import (
    ExtenderConfig,
    ExtenderFailed,
    ExtenderPreemption,
    ExtenderTLS,
    binding_args,
    check_binding_result,
    filter_args,
    ignorable_last,
    preemption_args,
    read_filter_result,
    read_host_priorities,
    read_preemption_result,
)
from holdfast.scheduling.framework.plugin import Candidate, Placement
from holdfast.scheduling.framework.world import World
from holdfast.state.columns.pod_info import PodInfo

log = logging.getLogger(__name__)
T = TypeVar("T")
NO_TIMEOUT = 3600.0
"""Timeout of the connection, seconds: ``HttpExtender`` measures the configured timeout itself."""
_HEADERS = {"content-type": "application/json", "accept": "application/json"}

RAW_NODES, RAW_PODS = NODES.untyped, PODS.untyped
"""Extenders get whole objects, with the fields that the scheduler does not read."""


class Extenders:
    """The extenders of a scheduler, in the order in which they are called."""

    def __init__(
        self, configs: Sequence[ExtenderConfig], client: Client, clock: Clock, world: World
    ) -> None:
        self._all = [HttpExtender(config, clock) for config in ignorable_last(configs)]
        self._client = client
        self._write_check = write_check_of(client.transport)
        self._world = world
        self._nodes: dict[str, msgspec.Raw] = {}
        self._node_informer: Informer[Any] | None = None
        if any(c.affects_decisions and not c.node_cache_capable for c in configs):
            self._node_informer = Informer(client, RAW_NODES, clock=clock, on_event=self._on_node)
        self.requests_in_flight = 0
        """Requests to extenders that have no response yet."""

    def __bool__(self) -> bool:
        return bool(self._all)

    async def start(self) -> None:
        """Start the informer of whole nodes if an extender needs them."""
        if self._node_informer is not None:
            self._node_informer.start()
            await self._node_informer.wait_for_sync()

    async def stop(self) -> None:
        """Close all connections."""
        if self._node_informer is not None:
            await self._node_informer.stop()
        for extender in self._all:
            await extender.close()

    def is_interested(self, pod: PodInfo) -> bool:
        """Tell whether an extender filters or prioritizes nodes for this pod."""
        return any(e.config.affects_decisions and e.config.interested(pod) for e in self._all)

    def supports_preemption(self, pod: PodInfo) -> bool:
        """Tell whether an extender processes preemptions by this pod."""
        return any(self._supporting(pod, "preempt_verb"))

    async def filter_and_prioritize(self, feasible: Feasible) -> ExtenderResults:
        """Let the extenders filter and prioritize the feasible nodes.

        A nominated node is filtered first, alone. Raises ExtenderFailed if an extender fails that
        is not ignorable.
        """
        names, pod = feasible.view.nodes.names, feasible.pod
        nominated = [names[row] for row in (feasible.preselected_row,) if row is not None]
        rows = [
            name for row in all_tiers(feasible).rows.tolist() if self._is_known(name := names[row])
        ]
        body = await self._body(pod)
        if nominated and self._is_known(nominated[0]):
            try:
                alone = await self._filtered(pod, body, nominated)
            except ExtenderFailed as failure:
                log.warning("filtering node %s for %s failed: %s", nominated[0], pod.key, failure)
            else:
                if alone.allowed:
                    return alone
        opinion = await self._filtered(pod, body, rows)
        if len(opinion.allowed) > 1:
            await self._score(pod, body, opinion)
        return opinion

    async def process_preemption(
        self, pod: PodInfo, candidates: Sequence[Candidate]
    ) -> ExtenderPreemption:
        """Let the extenders remove candidates of a preemption or change their victims."""
        body = await self._body(pod)
        left = list(candidates)
        for extender in self._supporting(pod, "preempt_verb"):
            if not left:
                break
            question = preemption_args(extender.config, body, left)
            try:
                left = await self._send(
                    extender, "preempt_verb", question,
                    lambda raw, by=extender: read_preemption_result(
                        by.config, raw, self._world.nodes
                    ),
                )  # fmt: skip
            except ExtenderFailed as failure:
                if not self._ignores(extender, pod, failure):
                    return ExtenderPreemption(error=str(failure))
        asked = {candidate.node: candidate for candidate in candidates}
        return ExtenderPreemption(asked, {one.node: one for one in left if one.node in asked})

    async def bind(self, placement: Placement) -> bool:
        """Let an extender bind the pod; return whether one did."""
        pod = placement.pod
        if not self.is_binder(pod):
            return False
        for extender in self._supporting(pod, "bind_verb"):
            try:
                # The extender's bind is a write too: it needs the leader's lease.
                await self._send(
                    extender,
                    "bind_verb",
                    binding_args(placement),
                    check_binding_result,
                    self._write_check,
                )
                return True
            except ExtenderFailed as failure:
                if not self._ignores(extender, pod, failure):
                    raise
        return False

    def is_binder(self, pod: PodInfo) -> bool:
        """Tell whether an extender binds this pod; never true for a reserve pod."""
        if not self._all or pod.is_reserve_pod:
            return False
        return any(self._supporting(pod, "bind_verb"))

    async def _filtered(self, pod: PodInfo, body: Any, names: Sequence[str]) -> ExtenderResults:
        opinion = ExtenderResults.before_calls(names)
        for extender in self._supporting(pod, "filter_verb"):
            if not opinion.allowed:
                break
            remaining = opinion.allowed
            try:
                response = await self._send(
                    extender, "filter_verb", self._node_arguments(extender, body, remaining),
                    lambda raw, by=extender, sent=remaining: (
                        read_filter_result(by.config, sent, raw)
                    ),
                )  # fmt: skip
            except ExtenderFailed as failure:
                if not self._ignores(extender, pod, failure):
                    raise
            else:
                opinion.add_filter_result(response)
        return opinion

    async def _score(self, pod: PodInfo, body: Any, opinion: ExtenderResults) -> None:
        """Add the scores of all extenders; one that fails adds none."""
        scoring = list(self._supporting(pod, "prioritize_verb"))
        responses = await asyncio.gather(
            *(
                self._send(one, "prioritize_verb", self._node_arguments(one, body, opinion.allowed),
                          read_host_priorities)
                for one in scoring
            ),
            return_exceptions=True,
        )  # fmt: skip
        for extender, response in zip(scoring, responses, strict=True):
            if isinstance(response, ExtenderFailed):
                log.warning("no scores from extender %s: %s", extender.config.url_prefix, response)
            elif isinstance(response, BaseException):
                raise response
            else:
                opinion.add_scores(extender.config, response)

    def _supporting(self, pod: PodInfo, verb: str) -> Iterator[HttpExtender]:
        return (e for e in self._all if getattr(e.config, verb) and e.config.interested(pod))

    async def _send(
        self,
        extender: HttpExtender,
        verb: str,
        question: Any,
        read: Any,
        write_check: Callable[[], None] | None = None,
    ) -> Any:
        self.requests_in_flight += 1
        try:
            return await extender.send(getattr(extender.config, verb), question, read, write_check)
        finally:
            self.requests_in_flight -= 1

    def _node_arguments(self, extender: HttpExtender, body: Any, names: Sequence[str]) -> Any:
        known = extender.config.node_cache_capable
        return filter_args(body, names, None if known else self._nodes)

    def _is_known(self, node: str) -> bool:
        """Tell whether the whole node is known, if an extender needs it; the informer may lag."""
        return self._node_informer is None or node in self._nodes

    async def _body(self, pod: PodInfo) -> Any:
        """Return the whole pod; a reserve pod is not stored in the API."""
        if pod.is_reserve_pod:
            return pod.pod
        try:
            return await self._client.get(RAW_PODS, pod.name, pod.namespace)
        except HoldfastError as failure:
            raise ExtenderFailed(f"reading the pod for extenders failed: {failure}") from failure

    def _ignores(self, extender: HttpExtender, pod: PodInfo, failure: ExtenderFailed) -> bool:
        if extender.config.ignorable:
            log.warning(
                "scheduling %s without an ignorable extender that failed: %s", pod.key, failure
            )
        return extender.config.ignorable

    def _on_node(self, _kind: str, old: Any, new: Any) -> None:
        if new is None:
            self._nodes.pop(old["metadata"]["name"], None)
        else:
            self._nodes[new["metadata"]["name"]] = msgspec.Raw(msgspec.json.encode(new))


class HttpExtender:
    """Calls one extender over HTTP; every error is raised as ExtenderFailed."""

    def __init__(self, config: ExtenderConfig, clock: Clock) -> None:
        self.config = config
        self._clock = clock
        self._url = config.url_prefix.rstrip("/")
        self._transport = HttpTransport(
            _endpoint(config), timeouts=Timeouts(NO_TIMEOUT, NO_TIMEOUT)
        )
        self._timeout = config.http_timeout

    async def send(
        self,
        verb: str,
        question: Any,
        read: Callable[[Any], T],
        write_check: Callable[[], None] | None = None,
    ) -> T:
        """POST a request and parse the response; ``write_check`` runs just before it is sent."""
        body = msgspec.json.encode(question)
        request = Request("POST", f"/{verb}", {}, _HEADERS, body, write_check)
        try:
            response = await self._send_in_time(request, verb)
        except Unavailable as failure:
            raise ExtenderFailed(f'Post "{self._url}/{verb}": {failure}') from failure
        if response.status != 200:
            raise ExtenderFailed(
                f"failed {verb} with extender at URL {self._url}/{verb}, code {response.status}"
            )
        try:
            return read(msgspec.json.decode(response.body))
        except (msgspec.DecodeError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ExtenderFailed(
                f"the response of {self._url}/{verb} cannot be read: {error or repr(error)}"
            ) from error

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def _send_in_time(self, request: Request, verb: str) -> Response:
        response = asyncio.create_task(self._transport.send(request))
        timer = asyncio.create_task(self._clock.sleep(self._timeout))
        try:
            await asyncio.wait({response, timer}, return_when=asyncio.FIRST_COMPLETED)
            if response.done():
                return response.result()
            raise ExtenderFailed(
                f'Post "{self._url}/{verb}": context deadline exceeded '
                "(Client.Timeout exceeded while awaiting headers)"
            )
        finally:
            timer.cancel()
            response.cancel()


def _endpoint(config: ExtenderConfig) -> Endpoint:
    tls = config.tls_config or ExtenderTLS()
    url = config.url_prefix
    if not url.startswith("https:"):
        return Endpoint(url)
    return Endpoint(url, server_name=tls.server_name, ssl_context=_tls(config, tls))


def _tls(config: ExtenderConfig, tls: ExtenderTLS) -> ssl.SSLContext:
    """Return the TLS context; ``enableHTTPS`` without a CA accepts any certificate."""
    trusted = bool(tls.ca_file or tls.ca_data)
    if trusted and tls.insecure:
        raise BadConfiguration(
            f"extenders: {config.url_prefix}: specifying a root certificates file with the "
            "insecure flag is not allowed"
        )
    try:
        context = ssl.create_default_context(
            cafile=tls.ca_file if tls.ca_file and not tls.ca_data else None,
            cadata=tls.ca_data.decode() or None,
        )
        _load_client_certificate(context, tls)
    except (OSError, ssl.SSLError, UnicodeDecodeError) as wrong:
        raise BadConfiguration(
            f"extenders: {config.url_prefix}: tlsConfig: the certificates cannot be used: {wrong}"
        ) from wrong
    # As for API servers: Go accepts certificates that Python 3.13's strict mode does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if tls.insecure or (config.enable_https and not trusted):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _load_client_certificate(context: ssl.SSLContext, tls: ExtenderTLS) -> None:
    """Load the client certificate; Python reads certificates from files only."""
    cert, key = (
        data or (Path(file).read_bytes() if file else b"")
        for data, file in ((tls.cert_data, tls.cert_file), (tls.key_data, tls.key_file))
    )
    if not cert:
        return
    handle, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(cert + b"\n" + key)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)
