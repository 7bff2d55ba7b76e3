"""Programs of other people as judges of manifests: `installing` gets them, `locations` says where they lie, `judges`
asks them, `table` counts what they were asked. What runs in their own packages (`judge_cel`, `judge_global_router`)
knows nothing of the planner."""
