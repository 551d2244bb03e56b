"""Who may see which value: classes of fields, what a reader sees, sentences about records, masks for what is written."""
