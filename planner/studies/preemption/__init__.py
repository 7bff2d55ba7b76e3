"""The scale-up study: who has to go when services grow on a full cluster."""
