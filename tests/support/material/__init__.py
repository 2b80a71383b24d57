"""Conversations, recordings and hand-over documents that several tests work on."""
