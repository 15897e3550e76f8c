"""Request metrics under upstream's names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from holdfast.client.transport import Response
from holdfast.runtime.metric_types import CallbackMetric, CounterMetric, Histogram, MetricCollector
from holdfast.server.operation import ServerContext
from holdfast.server.wire.request_info import RequestInfo

_LABELS = ("verb", "group", "version", "resource", "subresource")
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_UNLABELLED = (404, 405)  # responses to paths that clients may make up
RequestLabels = tuple[str, str, str, str, str]


class RequestMetrics:
    """The metrics of one server."""

    def __init__(self, context: ServerContext) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._requests = CounterMetric(
            "apiserver_request_total", "Requests answered.", (*_LABELS, "code")
        )
        self._seconds = Histogram(
            "apiserver_request_duration_seconds", "How long answers took.", _BUCKETS, _LABELS
        )
        watches = CallbackMetric(
            "apiserver_longrunning_requests", "Watches that are open.", (),
            lambda: {(): len(context.watches)},
        )  # fmt: skip
        self._registry.register(MetricCollector(self._requests, self._seconds, watches))

    def count(self, request_info: RequestInfo | None, status: int, seconds: float) -> None:
        """Count a request; ``request_info`` is None if it was not authorized.

        Unknown resources share one label, because clients can make up any number of names.
        """
        labels: RequestLabels = ("", "", "", "", "")
        if request_info is not None and request_info.is_resource and status not in _UNLABELLED:
            labels = (
                request_info.verb.upper(),
                request_info.group,
                request_info.version,
                request_info.plural,
                request_info.subresource,
            )
        self._requests.add(*labels, str(status))
        if labels[0] != "WATCH":
            self._seconds.observe(seconds, *labels)

    def response(self) -> Response:
        """Return all metrics in the Prometheus text format."""
        return Response(200, {"content-type": CONTENT_TYPE_LATEST}, generate_latest(self._registry))
