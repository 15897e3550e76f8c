"""Our decisions against the stock kube-scheduler's, over random snapshots.

``families`` makes the snapshots, ``referee`` asks the scheduler of k8s.io/kubernetes,
``comparison`` says how the answers differ, ``shrinking`` makes a differing case small.
"""
