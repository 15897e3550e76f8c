"""``Cdi``: what a container gets for its devices, as the author of a driver writes it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.cdi.spec import ContainerEdits, DeviceNode, Hook, Mount, NetDevice


class Cdi:
    """Edits of a container; every method returns the edits with one more.

    >>> Cdi().env(GPU="0").device("/dev/gpu0").edits.env
    ('GPU=0',)
    """

    def __init__(self, edits: ContainerEdits | None = None) -> None:
        self.edits = edits or ContainerEdits()

    def env(self, **variables: str | int) -> Cdi:
        """Set environment variables."""
        return self._and(
            ContainerEdits(env=tuple(f"{name}={value}" for name, value in variables.items()))
        )

    def device(self, path: str, *, host_path: str = "", permissions: str = "") -> Cdi:
        """Add a device node, with another path on the host if ``host_path`` is given."""
        node = DeviceNode(path=path, host_path=host_path, permissions=permissions)
        return self._and(ContainerEdits(device_nodes=(node,)))

    def mount(
        self, host_path: str, container_path: str = "", *, options: Sequence[str] = ("ro", "bind")
    ) -> Cdi:
        """Mount a path of the host, read-only unless ``options`` say otherwise."""
        mount = Mount(
            host_path=host_path,
            container_path=container_path or host_path,
            options=tuple(options),
        )
        return self._and(ContainerEdits(mounts=(mount,)))

    def hook(self, name: str, path: str, *args: str) -> Cdi:
        """Call a program at a step such as ``createContainer``; ``args`` start with its name."""
        return self._and(ContainerEdits(hooks=(Hook(hook_name=name, path=path, args=args),)))

    def net_device(self, host_interface: str, name: str) -> Cdi:
        """Move a network interface of the host into the container, under a new name."""
        return self._and(
            ContainerEdits(net_devices=(NetDevice(host_interface_name=host_interface, name=name),))
        )

    def group(self, *gids: int) -> Cdi:
        """Add supplementary groups."""
        return self._and(ContainerEdits(additional_gids=gids))

    def __add__(self, other: Cdi) -> Cdi:
        return Cdi(self.edits + other.edits)

    def _and(self, more: ContainerEdits) -> Cdi:
        return Cdi(self.edits + more)
