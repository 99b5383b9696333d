"""Arrow helpers that every floor uses: casts that do not raise, time zones, IPC bytes."""
