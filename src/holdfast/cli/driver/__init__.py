"""``holdfast driver``: start the project of a device driver."""
