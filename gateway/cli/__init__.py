"""The command `tidegate`: one module for each verb; `verbs` lists them, `main` runs them, `exits` ends them."""
