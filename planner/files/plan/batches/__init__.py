"""What lies in the folder of a batch beside its runs, and the jobs file that it is made from."""
