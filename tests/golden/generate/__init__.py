"""Real agent frameworks with a scripted model, recorded: how the captures beside this folder are made."""
