"""The custom kind of ``scheduling.koordinator.sh``: what its definition does not say."""

from __future__ import annotations

from holdfast.api import scheme
from holdfast.apiserver.descriptor import Admitter, Served
from holdfast.apiserver.kinds.admission.reservations import warn_of_reservation
from holdfast.apiserver.kinds.validation.scheduling import check_reservation_write
from holdfast.validation.list_limits import RESERVATION_TREE

KINDS = (
    Served(
        scheme.RESERVATIONS,
        lists=RESERVATION_TREE,
        checks=(check_reservation_write,),
        admitters=(Admitter(validate=warn_of_reservation),),
    ),
)
