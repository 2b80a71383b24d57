"""The proxy: any agent, one environment variable. Needs the extra `proxy`; nothing here is imported by the library."""
