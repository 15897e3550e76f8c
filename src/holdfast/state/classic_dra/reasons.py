"""Why a pod cannot use its classic claims: the messages of scheduler and extenders."""

from __future__ import annotations

UNALLOCATED_IMMEDIATE = "unallocated immediate resourceclaim"
MUST_BE_REALLOCATED = "resourceclaim must be reallocated"
IN_USE = "resourceclaim in use"
EXCLUDED_BY_CLASS = "excluded by resource class node filter"
UNSUITABLE = "resourceclaim cannot be allocated for the node (unsuitable)"
UNAVAILABLE = "resourceclaim not available on the node"
