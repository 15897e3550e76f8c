"""``holdfast reservation``: make, list and explain reservations, and see what room there is.

Lives here: what each command asks the API server and how the answer reads. Each command is a
function over a ``Client`` that answers with plain data, and a second one that prints it.
"""
