"""Health pages of named checks (/healthz, /livez, /readyz), with upstream's texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

HealthCheck = Callable[[], str]
"""Returns what is wrong, "" for nothing."""
FAILED, PASSED = 500, 200


def page(
    name: str,
    checks: Mapping[str, HealthCheck],
    *,
    excluded: Collection[str] = (),
    verbose: bool = False,
) -> tuple[int, str]:
    r"""Return the status and the text of a page of all checks.

    >>> page("readyz", {"ping": lambda: "", "store": lambda: "disk full"})
    (500, '[+]ping ok\n[-]store failed: disk full\nreadyz check failed\n')
    """
    failed, lines = False, []
    for check_name, check in checks.items():
        if check_name in excluded:
            lines.append(f"[+]{check_name} excluded: ok")
        elif wrong := check():
            failed = True
            lines.append(f"[-]{check_name} failed: {wrong}")
        else:
            lines.append(f"[+]{check_name} ok")
    if not failed and not verbose:
        return PASSED, "ok"
    lines.append(f"{name} check {'failed' if failed else 'passed'}\n")
    return FAILED if failed else PASSED, "\n".join(lines)


def single(check: HealthCheck) -> tuple[int, str]:
    r"""Return the status and the text of the page of one check.

    >>> single(lambda: "disk full")
    (500, 'internal server error: disk full\n')
    """
    wrong = check()
    return (FAILED, f"internal server error: {wrong}\n") if wrong else (PASSED, "ok")
