"""What a thing is: typed Kubernetes objects, quantities, selectors, tolerations, the scheme.

Lives here: msgspec structs for the fields Holdfast reads, parsing and comparing of their values,
defaulting, and the table of every resource we know (``scheme``). May not live here: I/O, clocks,
dice, anything that knows about scheduling. Structs are for *reading*: a typed object never goes
back over the wire as an update, because it would lose the fields it does not know; changes are
written as patches or by editing the raw object.
"""
