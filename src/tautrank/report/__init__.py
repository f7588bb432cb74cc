"""Results as people read them: tables, figures, pages."""
