"""Find the containers of a node for its HTTPS server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from holdfast.node.agent.kubelet_server.container_logs import LogFile, LogOptions, read_log
from holdfast.node.agent.pod_containers import ContainerRecord
from holdfast.node.agent.pod_worker import PodWorker
from holdfast.node.agent.runtime import ExecProcess, NotRunning, Runtime
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors import BadRequest, NotFound


@dataclass(frozen=True, slots=True)
class ContainerName:
    """A container of a pod on this node."""

    namespace: str
    pod: str
    container: str


class NodeContainers:
    """Finds containers by their names; every method raises NotFound or BadRequest."""

    def __init__(self, workers: Callable[[], Iterable[PodWorker]], clock: Clock) -> None:
        self._workers = workers
        self._clock = clock

    def log_file(self, name: ContainerName, *, previous: bool) -> LogFile:
        """Return the log of the running or last attempt, or of the previous one."""
        worker = self._worker(name.namespace, name.pod)
        record, runtime = self._container(worker, name)
        attempt = record.attempt - previous
        if attempt < 0:
            what = "previous terminated container" if previous else "container"
            state = "not found" if previous else "is waiting to start"
            raise BadRequest(f'{what} "{name.container}" in pod "{name.pod}" {state}')
        path = runtime.log_path(worker.pod.uid, name.container, attempt)
        if path is None:
            raise BadRequest(
                f'the containers of pod "{name.pod}" are simulated and write no log: start the '
                "cluster with --runtime process"
            )
        return LogFile(path, lambda: record.attempt == attempt and record.running is not None)

    async def exec(
        self, name: ContainerName, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> ExecProcess:
        """Start a command in a container."""
        record, _ = self._container(self._worker(name.namespace, name.pod), name)
        if record.running is None:
            raise BadRequest(f'container "{name.container}" in pod "{name.pod}" is not running')
        try:
            return await record.running.exec(tuple(command), stdin=stdin, tty=tty)
        except NotRunning as problem:
            raise BadRequest(str(problem)) from problem

    async def attach(self, name: ContainerName, *, stdin: bool) -> ExecProcess:
        """Attach to the output of a running container, from now on."""
        if stdin:
            raise BadRequest(
                "the standard input of a container cannot be attached: use `kubectl exec -i`"
            )
        record, _ = self._container(self._worker(name.namespace, name.pod), name)
        if record.running is None:
            raise BadRequest(f'container "{name.container}" in pod "{name.pod}" is not running')
        return _AttachedOutput(self.log_file(name, previous=False), record, self._clock)

    def forwarded_address(self, namespace: str, pod: str, port: int) -> tuple[str, int]:
        """Return the address at which this process can reach a port of a pod.

        Processes share the network of the machine, so only ports that the pod declares are
        forwarded: a right to one pod must not open all ports of the machine.
        """
        worker = self._worker(namespace, pod)
        if worker.runtime is None or not worker.runtime.real:
            raise BadRequest(f'the containers of pod "{pod}" are simulated and listen on no port')
        spec = worker.pod.spec
        containers = (*spec.containers, *spec.init_containers)
        if not any(p.container_port == port for c in containers for p in c.ports):
            raise BadRequest(
                f'port {port} is not one of the containerPorts of pod "{pod}": its processes share '
                "the network of this machine, and other ports are not forwarded"
            )
        return "127.0.0.1", port  # not the address in the pod's status, which others may write

    def _worker(self, namespace: str, pod: str) -> PodWorker:
        key = f"{namespace}/{pod}"
        named = [w for w in self._workers() if w.pod.key == key]
        # A pod that was deleted by force may still be ending when its successor runs.
        worker = next((w for w in named if not w.removed), named[0] if named else None)
        if worker is None:
            raise NotFound(f'pod "{pod}" is not running on this node')
        return worker

    @staticmethod
    def _container(worker: PodWorker, name: ContainerName) -> tuple[ContainerRecord, Runtime]:
        record = next((r for r in worker.records if r.name == name.container), None)
        if record is None:
            raise NotFound(f'container "{name.container}" not found in pod "{name.pod}"')
        if worker.runtime is None:
            raise BadRequest(
                f'container "{name.container}" in pod "{name.pod}" is waiting to start'
            )
        return record, worker.runtime


class _AttachedOutput:
    """The output of a running container, read from its log."""

    def __init__(self, log: LogFile, record: ContainerRecord, clock: Clock) -> None:
        self._record = record
        streams = {1: b"stdout", 2: b"stderr"}
        self._pieces = {
            number: read_log(log, LogOptions(follow=True, tail_lines=0, stream=stream), clock)
            for number, stream in streams.items()
        }

    async def read(self, stream: int) -> bytes:
        """Return the next output of stdout (1) or stderr (2); b"" at the end."""
        return await anext(self._pieces[stream], b"")

    async def write(self, data: bytes) -> None:
        """Ignore input, which was refused earlier."""

    def close_stdin(self) -> None:
        """Do nothing: no input is attached."""

    def resize(self, rows: int, columns: int) -> None:
        """Do nothing: there is no terminal."""

    async def wait(self) -> int:
        """Return 0: the end of the container is not a failure of attaching to it."""
        return 0

    def kill(self) -> None:
        """Leave the container alone."""
