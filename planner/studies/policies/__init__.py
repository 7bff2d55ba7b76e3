"""Online policies on a trace of pods: Alibaba's openb study of fragmentation and power."""
