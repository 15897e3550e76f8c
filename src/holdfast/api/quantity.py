"""Exact resource amounts."""

# An amount as it stands in JSON: usually "500m" or "2Gi", but numbers are accepted too.
AmountText = str | int | float
