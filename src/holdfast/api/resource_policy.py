"""ResourcePolicy (scheduling.sigs.x-k8s.io/v1alpha1): ordered units of nodes with caps."""

from __future__ import annotations

from holdfast.api import durations
from holdfast.api.meta import Condition, LabelSelector, Object, Struct
from holdfast.api.pod import ResourceAmounts

PREFER = "prefer"
REQUIRED = "required"
STRATEGIES = (PREFER, REQUIRED)

LACK_RESOURCE_OR_EXCEED_MAX = "LackResourceOrExceedMax"
EXCEED_MAX = "ExceedMax"
TIMEOUT_OR_EXCEED_MAX = "TimeoutOrExceedMax"
LACK_RESOURCE_AND_NO_TERMINATING = "LackResourceAndNoTerminating"
NEXT_UNITS_POLICIES = (
    LACK_RESOURCE_OR_EXCEED_MAX,
    EXCEED_MAX,
    TIMEOUT_OR_EXCEED_MAX,
    LACK_RESOURCE_AND_NO_TERMINATING,
)
"""The policies of whenTryNextUnits."""

AFTER_ALL_UNITS = "AfterAllUnits"
BEFORE_NEXT_UNIT = "BeforeNextUnit"
PREEMPT_POLICIES = (AFTER_ALL_UNITS, BEFORE_NEXT_UNIT)

DEFAULT_TIMEOUT = "15m"


class MatchPolicy(Struct, frozen=True):
    """The selected pods that are counted."""

    ignore_terminating_pod: bool = False
    ignore_previous_pod: bool = False


class WhenTryNextUnits(Struct, frozen=True):
    """When nodes of lower priority are tried; only TimeoutOrExceedMax uses ``timeout``."""

    policy: str = LACK_RESOURCE_OR_EXCEED_MAX
    timeout: str = DEFAULT_TIMEOUT

    @property
    def timeout_seconds(self) -> float:
        """The timeout in seconds; raise BadRequest if it is not a duration.

        >>> WhenTryNextUnits().timeout_seconds
        900.0
        """
        return durations.parse_seconds(self.timeout)


class Unit(Struct, frozen=True):
    """Some nodes, their priority, and the limits for the selected pods on them."""

    name: str = ""
    priority: int = 0
    max_count: int | None = None
    max_resources: ResourceAmounts = {}
    node_selector: LabelSelector = LabelSelector()
    pod_labels: dict[str, str] = {}
    pod_annotations: dict[str, str] = {}


def unit_name(unit: Unit, index: int) -> str:
    """Return the name of a unit in messages, metrics and the status; units may lack a name."""
    return unit.name or f"unit-{index}"


class ResourcePolicySpec(Struct, frozen=True):
    """The selected pods, and the units for them."""

    pod_selector: LabelSelector = LabelSelector()
    match_label_keys: tuple[str, ...] = ()
    match_policy: MatchPolicy = MatchPolicy()
    strategy: str = REQUIRED
    units: tuple[Unit, ...] = ()
    when_try_next_units: WhenTryNextUnits = WhenTryNextUnits()
    preempt_policy: str = AFTER_ALL_UNITS


class GroupStatus(Struct, frozen=True):
    """The pods of a unit that have the same values of matchLabelKeys."""

    labels: dict[str, str] = {}
    pods: int = 0


class UnitStatus(Struct, frozen=True):
    """The number of nodes of a unit, and the count and requests of the selected pods on them."""

    name: str = ""
    nodes: int = 0
    pods: int = 0
    max_count: int | None = None
    resources: ResourceAmounts = {}
    max_resources: ResourceAmounts = {}
    groups: tuple[GroupStatus, ...] = ()


class ResourcePolicyStatus(Struct, frozen=True):
    """What the units contain; ``usage`` and ``headroom`` are for printer columns."""

    observed_generation: int = 0
    usage: str = ""
    headroom: str = ""
    units: tuple[UnitStatus, ...] = ()
    conditions: tuple[Condition, ...] = ()


class ResourcePolicy(Object, frozen=True):
    """Ordered units of nodes for the pods of one namespace."""

    spec: ResourcePolicySpec = ResourcePolicySpec()
    status: ResourcePolicyStatus = ResourcePolicyStatus()
