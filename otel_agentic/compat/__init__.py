"""The arithmetic of other systems, faults included, for people who compare or migrate."""
