"""The line scorer learned anew from recorded sessions."""
