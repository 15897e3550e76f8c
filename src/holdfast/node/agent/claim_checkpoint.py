"""The checkpoint of prepared claims, in the form of a kubelet's ``dra_manager_state``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from holdfast.node.agent.checkpoint_file import RESET_HINT, read_checkpoint
from holdfast.node.agent.claims import ClaimKey
from holdfast.node.agent.dra_calls import DriverClaim, PreparedDevice
from holdfast.runtime.errors import BadConfiguration

CLAIM_CHECKPOINT = "dra_manager_state"

_KIND, _VERSION = "DRACheckpoint", "checkpoint.dra.kubelet.k8s.io/v1"


@dataclass(slots=True)
class DriverState:
    """The state of one driver for a claim."""

    devices: tuple[PreparedDevice, ...] = ()
    classic: bool = False
    handle: str = ""


@dataclass(slots=True)
class ClaimInfoState:
    """A claim that is prepared on this node, or was meant to be."""

    uid: str
    name: str
    namespace: str
    pods: set[str] = field(default_factory=set)
    """Uids of the pods that use it here."""
    drivers: dict[str, DriverState] = field(default_factory=dict)
    allocation: tuple[str, ...] = ()
    """The devices that were allocated when it was prepared, or the driver of a classic claim; () if
    a kubelet wrote the checkpoint."""
    class_name: str = ""
    """The class of a classic claim."""
    prepared: bool = False
    """Not stored: after a restart prepare is called again."""

    @property
    def classic(self) -> bool:
        """Whether a resource driver has allocated it; then this is its only driver."""
        return any(state.classic for state in self.drivers.values())

    @property
    def key(self) -> ClaimKey:
        """Namespace, name and generation; at most one claim is prepared for each key."""
        return self.namespace, self.name, self.classic

    @property
    def handles(self) -> dict[str, str]:
        """The data of each driver's controller for its node part."""
        return {driver: state.handle for driver, state in self.drivers.items()}

    def request(self, driver: str) -> DriverClaim:
        """Return the claim as it is sent to a driver."""
        state = self.drivers[driver]
        return DriverClaim(self.namespace, self.name, self.uid, state.handle, state.devices)


class _Device(msgspec.Struct):
    PoolName: str = ""
    DeviceName: str = ""
    ShareID: str | None = None
    RequestNames: list[str] | None = None
    CDIDeviceIDs: list[str] | None = None


class _Driver(msgspec.Struct, omit_defaults=True):
    Devices: list[_Device] | None = None
    Classic: bool = False
    ResourceHandle: str = ""


class _Claim(msgspec.Struct):
    ClaimUID: str
    ClaimName: str
    Namespace: str
    PodUIDs: dict[str, Any] | None = None
    DriverState: dict[str, _Driver] | None = None
    Allocation: list[str] = []
    """A kubelet does not have this field and ignores it."""
    ClassName: str = ""


class _Claims(msgspec.Struct):
    kind: str
    apiVersion: str
    ClaimInfoStateList: list[_Claim] | None = None


def encode_claims(claims: Iterable[ClaimInfoState]) -> bytes:
    """Return claims as the data of a checkpoint."""
    return msgspec.json.encode(_Claims(_KIND, _VERSION, [_stored(claim) for claim in claims]))


def read_claims(path: Path) -> list[ClaimInfoState]:
    """Return the claims of a checkpoint; raises BadConfiguration."""
    checkpoint = read_checkpoint(path, _Claims)
    if checkpoint is None:
        return []
    if (checkpoint.kind, checkpoint.apiVersion) != (_KIND, _VERSION):
        raise BadConfiguration(
            f"{path} holds {checkpoint.kind} {checkpoint.apiVersion}, not {_KIND} {_VERSION}. "
            f"{RESET_HINT}"
        )
    return [_restored(claim) for claim in checkpoint.ClaimInfoStateList or ()]


def _stored(claim: ClaimInfoState) -> _Claim:
    drivers = {
        driver: _Driver(
            [
                _Device(d.pool, d.device, d.share_id, list(d.request_names), list(d.cdi_devices))
                for d in state.devices
            ],
            state.classic,
            state.handle,
        )
        for driver, state in sorted(claim.drivers.items())
    }
    pods: dict[str, Any] = {uid: {} for uid in sorted(claim.pods)}
    allocation = list(claim.allocation)
    return _Claim(
        claim.uid, claim.name, claim.namespace, pods, drivers, allocation, claim.class_name
    )


def _restored(claim: _Claim) -> ClaimInfoState:
    drivers = {
        driver: DriverState(
            tuple(
                PreparedDevice(
                    tuple(d.CDIDeviceIDs or ()),
                    tuple(d.RequestNames or ()),
                    d.PoolName,
                    d.DeviceName,
                    d.ShareID,
                )
                for d in state.Devices or ()
            ),
            state.Classic,
            state.ResourceHandle,
        )
        for driver, state in (claim.DriverState or {}).items()
    }
    pods = set(claim.PodUIDs or ())
    allocation = tuple(claim.Allocation)
    return ClaimInfoState(
        claim.ClaimUID, claim.ClaimName, claim.Namespace, pods, drivers, allocation, claim.ClassName
    )
