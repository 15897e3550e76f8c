"""``holdfast node``: let nodes fail and recover, and list them.

Lives here: what each command reads and writes, and how it is printed. A failed node is a Node with
an annotation that the agents of Holdfast obey; the controllers detect the failure by its lease.
"""
