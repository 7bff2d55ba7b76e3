"""Tables that users bring: traces, lengths, workloads, measurements, calibrations."""
