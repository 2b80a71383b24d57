"""The proxy before Gemini: Google's client, hidden recalls, gemini-cli."""
