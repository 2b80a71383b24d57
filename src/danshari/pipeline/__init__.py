"""One request, step by step: read, analyse, admit, plan, commit, write."""
