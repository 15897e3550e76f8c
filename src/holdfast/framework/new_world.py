"""Make an empty world with every room that Holdfast has."""

from __future__ import annotations

from holdfast.capacity.offers import Offers
from holdfast.capacity.policies import Policies
from holdfast.columns.picture import Picture
from holdfast.devices.inventory import Inventory
from holdfast.framework.world import World


def new_world() -> World:
    """A cluster without nodes, pods, promises or devices, ready to be told of them."""
    nodes = Picture()
    return World(nodes, offers=Offers(nodes), policies=Policies(nodes), devices=Inventory(nodes))
