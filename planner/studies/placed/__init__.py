"""What it is worth to put every layout on a cluster's nodes before it is judged (`objective: placed`)."""
