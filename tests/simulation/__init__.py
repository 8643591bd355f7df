"""Deterministic simulation: the real flow, scheduler, store and fleet engine in one thread.

A seed makes a cluster, people, and faults; simulated nodes keep the protocol's rules and the ground
truth; the checker compares what is recorded with what really happened. Same seed, same history.
"""
