"""Compare the decisions of Holdfast and kube-scheduler on random snapshots.

``families`` generates the snapshots, ``referee`` runs both schedulers, ``comparison`` lists the
differences of their answers, ``shrinking`` minimizes a differing case.
"""
