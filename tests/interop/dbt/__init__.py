"""Run the dbt macro of docs/guides/commands.md with dbt-spark's session method."""
