"""What leaves the program: notifications, and later logs and metrics."""
