"""What pods may not do, why some may, and who may speak to whom."""
