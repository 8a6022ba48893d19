"""A Celery app whose failures Outlast looks after."""
