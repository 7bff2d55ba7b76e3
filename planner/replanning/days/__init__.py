"""Days as they come: forecasts, rolling horizons, changes from plan to plan, and every window replayed."""
