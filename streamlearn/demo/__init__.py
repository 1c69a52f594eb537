"""The main job on real events, started, measured from outside and taken down again by one command."""
