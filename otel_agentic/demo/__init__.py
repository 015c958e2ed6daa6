"""The demo: real agents with a scripted model, a real collector, real OTLP, and the results."""
