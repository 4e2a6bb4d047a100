"""AMD GPUs through the package hip-python; nothing of it is imported before a GPU is asked for.

| module | holds |
|---|---|
| `binding` | finding hip-python and the HIP library, calling it |
| `errors` | HIP's error codes as exceptions |
| `discovery` | which GPUs there are, or why there is none |
| `driver` | HIP as one device calls it, with its GPU current |
| `resources` | what was handed out and must be given back |
| `memory`, `streams`, `modules`, `host_functions` | what a device hands out |
| `device` | the `Device` |
"""
