"""Speed, load and traffic."""
