"""Real agent frameworks with a scripted model, recorded: how the captures of `tests/golden/captures` are made."""
