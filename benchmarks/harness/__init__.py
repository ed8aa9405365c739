"""What experiments share: running, child processes, data sets, rivals, tables, pages, timing."""
