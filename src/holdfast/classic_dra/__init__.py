"""Classic DRA (KEP-3063): claims that resource drivers allocate, and the negotiation about nodes.

Lives here: the states of a claim and who may change them (``claim_state``), the classic claims of a
pod, and the ledger of claims, classes and negotiations (``ClassicLedger``). May not live here:
devices of the structured generation, verdict codes, I/O, clocks, random numbers.
"""
