"""Write the table of allocation keys (``holdfast.api.allocation_keys``) into its copies.

The copies are in the policies of ``deploy/admission/pod-allocations.yaml``, each of which has a
variable ``keys``, and in docs/security.md. Run it after a change of the table, and commit the
changes::

    .venv/bin/python tools/generate_policies.py
"""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.api.allocation_keys import ALLOCATION_KEYS

ROOT = Path(__file__).resolve().parent.parent
POLICY = ROOT / "deploy" / "admission" / "pod-allocations.yaml"
PAGE = ROOT / "docs" / "security.md"
_KEYS = re.compile(r"(?<=  - name: keys\n    expression: >-\n      )\[[^]]*]")
_TABLE = re.compile(r"(?<=generate_policies.py -->\n).*?(?=\n<!-- end -->)", re.DOTALL)


def policy_text(policy: str) -> str:
    """Return the policies with the current keys."""
    keys = ",\n      ".join(f"'{entry.key}'" for entry in ALLOCATION_KEYS)
    return _KEYS.sub(f"[{keys}]", policy)


def page_text(page: str) -> str:
    """Return the page with the current table."""
    rows = [f"| `{entry.key}` | {entry.records} |" for entry in ALLOCATION_KEYS]
    return _TABLE.sub("\n".join(("| annotation | records |", "|---|---|", *rows)), page)


def main() -> None:
    """Write both files."""
    POLICY.write_text(policy_text(POLICY.read_text()))
    PAGE.write_text(page_text(PAGE.read_text()))


if __name__ == "__main__":
    main()
