"""Each workflow is the straight line through the rooms, readable as a table of contents."""
