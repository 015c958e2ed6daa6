"""An open store and everything that works on it: rebuilding, worker processes, retention, transfer."""
