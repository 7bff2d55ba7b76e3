"""A made-up trace in the columns of Alibaba's, drawn to meet what the ASI paper prints of its own."""
