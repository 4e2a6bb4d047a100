"""The opcode table as text, one module a family of encodings."""
