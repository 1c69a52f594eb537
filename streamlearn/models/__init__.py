"""Models as things people handle: what the models topic holds, files of models, and changes that running workers make when asked."""
