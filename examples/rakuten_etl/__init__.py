"""An ETL from an API through raw files to staging and application tables, in four jobs."""
