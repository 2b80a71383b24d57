"""What several commands share: tables, progress, reading sessions, explaining one request."""
