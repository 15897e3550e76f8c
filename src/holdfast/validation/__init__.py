"""What an object must say to be of use, field by field.

Lives here: checks over typed objects that more than one room makes (the embedded API server when
an object is written, the scheduler when a real API server let it through). Each answers with
causes that name the field. May not live here: the shape of JSON (the API server's), who may write
what, I/O, clocks.
"""
