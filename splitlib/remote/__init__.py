"""Calls of what is far away: each has a deadline, a thread that can be given up, and retries."""
