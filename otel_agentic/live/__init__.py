"""The running collector: receives, rebuilds, scores and reports continuously."""
