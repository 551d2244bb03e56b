"""The command `tidegate`: one module for each verb. `verbs` lists the verbs, and `main` runs one."""
