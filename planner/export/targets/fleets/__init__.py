"""Several deployments together: who takes requests for whom, and what their queues and priorities share."""
