"""Data of any size: loads, exports, streams, frames, blobs."""
