"""HTTP clients with Holdfast's judgement."""
