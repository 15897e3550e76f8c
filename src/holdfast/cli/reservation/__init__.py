"""``holdfast reservation``: create, list and explain reservations; show free resources.

Lives here: what each command reads from the API server and how it is printed. Each command is one
function over a ``Client`` that returns plain data, and a second one that prints it.
"""
