"""What people can change by hand, once for the command line, the pages, their JSON and the audit log."""
