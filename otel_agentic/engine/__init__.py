"""An opened store with everything that works on it: rebuilding, worker processes, retention, transfer."""
