"""Schemas as clients of Confluent Schema Registry write them: parsed, tagged, imported. No database."""
