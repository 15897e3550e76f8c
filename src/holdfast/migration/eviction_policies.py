"""How a pod is evicted."""

EVICTION, DELETE, SOFT = "Eviction", "Delete", "SoftEviction"
POLICIES = (EVICTION, DELETE, SOFT)
"""Through its subresource, by a deletion, or by an annotation that asks its operator."""
