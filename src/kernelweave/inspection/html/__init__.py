"""The report as one HTML file: facts, charts, template."""
