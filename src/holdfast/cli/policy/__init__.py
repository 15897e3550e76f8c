"""``holdfast policy``: list resource policies, show how full they are, explain the next decision.

Lives here: what each command reads from the API server and how it is printed. Each command is one
function over objects that returns plain data, and a second one that prints it.
"""
