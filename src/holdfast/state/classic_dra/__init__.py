"""Classic DRA (KEP-3063): claims that resource drivers allocate, and the negotiation about nodes.

Lives here: the states of a claim and which component may change them (``claim_state``), the classic
claims of a pod, the ledger of claims, classes and negotiations (``ClassicLedger``), explanations;
and, as functions over JSON, how pods get the form of a real cluster (``annotated_pods``,
``admission_review``). May not live here: devices of the structured generation, verdict codes, I/O,
clocks, random numbers.
"""
