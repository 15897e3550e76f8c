"""``holdfast devices``: the devices of a cluster, and which claims hold them.

Lives here: reading and printing. ``holdfast.state.devices`` decides what is free or held.
"""
