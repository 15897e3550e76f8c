"""All extenders together: their opinion of nodes, of evictions, and who of them binds pods.

Extenders that filter are asked one after the other, each about what the ones before left; those
that only give points are asked at the same time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from holdfast.api.resource import Resource
from holdfast.api.scheme import NODES, PODS
from holdfast.client.client import Client
from holdfast.client.endpoint import Endpoint, Timeouts
from holdfast.client.http import HttpTransport
from holdfast.client.informer import Informer
from holdfast.client.transport import Request, Response, write_check_of
from holdfast.clock import Clock
from holdfast.columns.pod_info import PodInfo
from holdfast.engine.decision import Feasible
from holdfast.engine.extender_results import ExtenderResults
from holdfast.errors import BadConfiguration, HoldfastError, Unavailable
from holdfast.framework.extender import (
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
from holdfast.framework.plugin import Candidate, Placement
from holdfast.framework.world import World

log = logging.getLogger(__name__)
T = TypeVar("T")
NEVER = 3600.0
"""The clock tells when an answer is too late; the connection itself need not."""
_HEADERS = {"content-type": "application/json", "accept": "application/json"}

RAW_NODES: Resource[dict[str, Any]] = replace(cast("Resource[Any]", NODES), type=dict)
RAW_PODS: Resource[dict[str, Any]] = replace(cast("Resource[Any]", PODS), type=dict)
"""Extenders are told of objects as they are stored, not only of what we read of them."""


class Extenders:
    """The extenders of a scheduler, in the order they are asked."""

    def __init__(
        self, configs: Sequence[ExtenderConfig], client: Client, clock: Clock, world: World
    ) -> None:
        self._all = [HttpExtender(config, clock) for config in ignorable_last(configs)]
        self._client = client
        self._write_check = write_check_of(client.transport)
        self._world = world
        self._nodes: dict[str, msgspec.Raw] = {}
        self._node_news: Informer[Any] | None = None
        if any(c.affects_decisions and not c.node_cache_capable for c in configs):
            self._node_news = Informer(client, RAW_NODES, clock=clock, on_event=self._on_node)
        self.requests_in_flight = 0
        """Questions under way."""

    def __bool__(self) -> bool:
        return bool(self._all)

    async def start(self) -> None:
        """Read the nodes in full, if an extender wants them so."""
        if self._node_news is not None:
            self._node_news.start()
            await self._node_news.wait_for_sync()

    async def stop(self) -> None:
        """Hang up."""
        if self._node_news is not None:
            await self._node_news.stop()
        for extender in self._all:
            await extender.close()

    def is_interested(self, pod: PodInfo) -> bool:
        """Tell whether somebody has a say in where this pod goes."""
        return any(e.config.affects_decisions and e.config.interested(pod) for e in self._all)

    def supports_preemption(self, pod: PodInfo) -> bool:
        """Tell whether somebody has a say in who is evicted for this pod."""
        return any(self._speaking(pod, "preempt_verb"))

    async def filter_and_prioritize(self, found: Feasible) -> ExtenderResults:
        """Ask what they make of the feasible nodes; a nominated one is asked about first, alone.

        Raises ExtenderFailed if one fails that may not.
        """
        names, pod = found.view.nodes.names, found.pod
        chosen = [names[row] for row in (found.preselected_row,) if row is not None]
        rows = [name for row in found.rows.tolist() if self._knows(name := names[row])]
        body = await self._body(pod)
        if chosen and self._knows(chosen[0]):
            try:
                promised = await self._filtered(pod, body, chosen)
            except ExtenderFailed as failure:
                log.warning("asking about %s for %s: %s", chosen[0], pod.key, failure)
            else:
                if promised.allowed:
                    return promised
        opinion = await self._filtered(pod, body, rows)
        if len(opinion.allowed) > 1:
            await self._score(pod, body, opinion)
        return opinion

    async def process_preemption(
        self, pod: PodInfo, candidates: Sequence[Candidate]
    ) -> ExtenderPreemption:
        """Ask which nodes may be freed for the pod, and by evicting whom."""
        body = await self._body(pod)
        left = list(candidates)
        for extender in self._speaking(pod, "preempt_verb"):
            if not left:
                break
            question = preemption_args(extender.config, body, left)
            try:
                left = await self._ask(
                    extender, "preempt_verb", question,
                    lambda raw, by=extender: read_preemption_result(
                        by.config, raw, self._world.nodes
                    ),
                )  # fmt: skip
            except ExtenderFailed as failure:
                if not self._forgiven(extender, pod, failure):
                    return ExtenderPreemption(error=str(failure))
        asked = {candidate.node: candidate for candidate in candidates}
        return ExtenderPreemption(asked, {one.node: one for one in left if one.node in asked})

    async def bind(self, placement: Placement) -> bool:
        """Let an extender bind the pod, if one does that; tell whether it did."""
        pod = placement.pod
        if not self.is_binder(pod):
            return False
        for extender in self._speaking(pod, "bind_verb"):
            try:
                # To bind is to write: not without the lease, whoever does it for us.
                await self._ask(
                    extender,
                    "bind_verb",
                    binding_args(placement),
                    check_binding_result,
                    self._write_check,
                )
                return True
            except ExtenderFailed as failure:
                if not self._forgiven(extender, pod, failure):
                    raise
        return False

    def is_binder(self, pod: PodInfo) -> bool:
        """Tell whether an extender binds this pod; what stands for a reservation is no pod."""
        return not pod.is_reserve_pod and any(self._speaking(pod, "bind_verb"))

    async def _filtered(self, pod: PodInfo, body: Any, names: Sequence[str]) -> ExtenderResults:
        opinion = ExtenderResults.before_calls(names)
        for extender in self._speaking(pod, "filter_verb"):
            if not opinion.allowed:
                break
            left = opinion.allowed
            try:
                answer = await self._ask(
                    extender, "filter_verb", self._about(extender, body, left),
                    lambda raw, by=extender, left=left: read_filter_result(by.config, left, raw),
                )  # fmt: skip
            except ExtenderFailed as failure:
                if not self._forgiven(extender, pod, failure):
                    raise
            else:
                opinion.add_filter_result(answer)
        return opinion

    async def _score(self, pod: PodInfo, body: Any, opinion: ExtenderResults) -> None:
        """Add everybody's points; who fails gives none."""
        scoring = list(self._speaking(pod, "prioritize_verb"))
        answers = await asyncio.gather(
            *(
                self._ask(one, "prioritize_verb", self._about(one, body, opinion.allowed),
                          read_host_priorities)
                for one in scoring
            ),
            return_exceptions=True,
        )  # fmt: skip
        for extender, answer in zip(scoring, answers, strict=True):
            if isinstance(answer, ExtenderFailed):
                log.warning("no points from %s: %s", extender.config.url_prefix, answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                opinion.add_scores(extender.config, answer)

    def _speaking(self, pod: PodInfo, verb: str) -> Iterator[HttpExtender]:
        return (e for e in self._all if getattr(e.config, verb) and e.config.interested(pod))

    async def _ask(
        self,
        extender: HttpExtender,
        verb: str,
        question: Any,
        read: Any,
        write_check: Callable[[], None] | None = None,
    ) -> Any:
        self.requests_in_flight += 1
        try:
            return await extender.ask(getattr(extender.config, verb), question, read, write_check)
        finally:
            self.requests_in_flight -= 1

    def _about(self, extender: HttpExtender, body: Any, names: Sequence[str]) -> Any:
        known = extender.config.node_cache_capable
        return filter_args(body, names, None if known else self._nodes)

    def _knows(self, node: str) -> bool:
        """Tell whether we could describe a node to whoever wants that; news may be under way."""
        return self._node_news is None or node in self._nodes

    async def _body(self, pod: PodInfo) -> Any:
        """The pod in full; what stands for a reservation is nowhere else."""
        if pod.is_reserve_pod:
            return pod.pod
        try:
            return await self._client.get(RAW_PODS, pod.name, pod.namespace)
        except HoldfastError as failure:
            raise ExtenderFailed(f"reading the pod for extenders: {failure}") from failure

    def _forgiven(self, extender: HttpExtender, pod: PodInfo, failure: ExtenderFailed) -> bool:
        if extender.config.ignorable:
            log.warning("going on for %s without an extender: %s", pod.key, failure)
        return extender.config.ignorable

    def _on_node(self, _kind: str, old: Any, new: Any) -> None:
        if new is None:
            self._nodes.pop(old["metadata"]["name"], None)
        else:
            self._nodes[new["metadata"]["name"]] = msgspec.Raw(msgspec.json.encode(new))


class HttpExtender:
    """Asks one extender over HTTP; whatever goes wrong is ExtenderFailed."""

    def __init__(self, config: ExtenderConfig, clock: Clock) -> None:
        self.config = config
        self._clock = clock
        self._url = config.url_prefix.rstrip("/")
        self._transport = HttpTransport(_endpoint(config), timeouts=Timeouts(NEVER, NEVER))
        self._timeout = config.http_timeout

    async def ask(
        self,
        verb: str,
        question: Any,
        read: Callable[[Any], T],
        write_check: Callable[[], None] | None = None,
    ) -> T:
        """POST a question and read the answer; ``permit`` is asked when it is about to leave."""
        body = msgspec.json.encode(question)
        request = Request("POST", f"/{verb}", {}, _HEADERS, body, write_check)
        try:
            answer = await self._in_time(request, verb)
        except Unavailable as failure:
            raise ExtenderFailed(f'Post "{self._url}/{verb}": {failure}') from failure
        if answer.status != 200:
            raise ExtenderFailed(
                f"failed {verb} with extender at URL {self._url}/{verb}, code {answer.status}"
            )
        try:
            return read(msgspec.json.decode(answer.body))
        except (msgspec.DecodeError, AttributeError, LookupError, TypeError, ValueError) as odd:
            raise ExtenderFailed(
                f"the answer of {self._url}/{verb} cannot be read: {odd or repr(odd)}"
            ) from odd

    async def close(self) -> None:
        """Hang up."""
        await self._transport.close()

    async def _in_time(self, request: Request, verb: str) -> Response:
        answer = asyncio.create_task(self._transport.send(request))
        timer = asyncio.create_task(self._clock.sleep(self._timeout))
        try:
            await asyncio.wait({answer, timer}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            raise ExtenderFailed(
                f'Post "{self._url}/{verb}": context deadline exceeded '
                "(Client.Timeout exceeded while awaiting headers)"
            )
        finally:
            timer.cancel()
            answer.cancel()


def _endpoint(config: ExtenderConfig) -> Endpoint:
    tls = config.tls_config or ExtenderTLS()
    url = config.url_prefix
    if not url.startswith("https:"):
        return Endpoint(url)
    return Endpoint(url, server_name=tls.server_name, ssl_context=_tls(config, tls))


def _tls(config: ExtenderConfig, tls: ExtenderTLS) -> ssl.SSLContext:
    """Make the TLS context; asked for HTTPS without an authority we believe anybody."""
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
        _identify(context, tls)
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


def _identify(context: ssl.SSLContext, tls: ExtenderTLS) -> None:
    """Show who we are; Python reads certificates from files only."""
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
