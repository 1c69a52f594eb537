"""Running learners over files: backtests, reports, plots."""
