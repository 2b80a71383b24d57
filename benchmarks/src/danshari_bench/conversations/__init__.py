"""Conversations made from the SDKs' own types, and a referee that judges what is sent of them."""
