"""How fast and how good the package is, against named references: see README.md here."""
