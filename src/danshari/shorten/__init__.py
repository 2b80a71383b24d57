"""Shorter forms of single texts: telling lines, rows of JSON, files read again, call arguments."""
