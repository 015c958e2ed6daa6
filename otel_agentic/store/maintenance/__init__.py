"""Maintenance of a store: migrations, export and import, retention, backups, snapshots and compaction."""
