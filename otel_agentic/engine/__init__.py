"""One opened store with everything that works on it: rebuilding, scoring in parallel, retention, transfer."""
