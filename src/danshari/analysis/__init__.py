"""What is known about a conversation: facts worked out item by item and kept up to date as it grows."""
