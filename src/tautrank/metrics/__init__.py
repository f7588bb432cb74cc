"""What "good" means: ranking metrics, tie policies, empty queries, significance."""
