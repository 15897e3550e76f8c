"""What the server knows of single kinds.

Lives here: their admission, validation, printers and subresources, and how custom resources
come to be served. May not live here: what all kinds share.
"""
