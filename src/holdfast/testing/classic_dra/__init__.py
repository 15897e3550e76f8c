"""The test kit for classic DRA: builders, test drivers, the conformance suite, random claims.

``__all__`` is the stable part (docs/public-api.md).
"""

from typing import TYPE_CHECKING

from holdfast.runtime.deferred_imports import deferred

if TYPE_CHECKING:
    from holdfast.testing.classic_dra.drivers import ClassicDriverNode

__all__ = ["ClassicDriverNode"]

__getattr__ = deferred(__name__, {"ClassicDriverNode": "drivers"})
