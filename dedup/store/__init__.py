"""The store: everything that speaks the Redis protocol. Nothing outside this package imports redis."""
