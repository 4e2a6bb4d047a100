"""Linking one relocatable AMDGPU object in this process: what is read (`relocatable`), where it goes (`layout`), what
is made for the loader (`tables`), and the whole (`link`)."""
