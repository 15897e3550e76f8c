"""Headers and values of Accept that several tests send."""

MERGE = {"content-type": "application/merge-patch+json"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
