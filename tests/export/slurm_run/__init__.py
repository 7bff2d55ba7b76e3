"""A Slurm that is one machine: its programs, held to the options that Slurm documents, and engines without a model."""
