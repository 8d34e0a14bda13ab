"""Texts for the types of arguments: "*f32", "i32:16", "tensordesc<fp32[64, 32]>"."""

from .descriptors import descriptor_at
from .dtypes import BOOL, DOUBLE, INT, UINT, double_bits, dtype_named, int1
from .errors import Wrong


def type_words(text):
    """A value that is specialised as the type in the text asks for."""
    if text.startswith("tensordesc<") and text.endswith(">"):  # Triton's own spelling
        text = "*" + text[len("tensordesc<"):-1].replace(" ", "")
    name, _, divisible = text.lstrip("*").partition(":")
    name, bracket, block = name.partition("[")
    found = dtype_named(name)
    if found and bracket and text.startswith("*") and block.endswith("]") and not divisible:
        block = [int(n) for n in block[:-1].split(",")]
        strides = [1 << 16] * (len(block) - 1) + [1]
        return descriptor_at(found._pointer, 16, None, [1 << 20] * len(block), strides, block, "zero")
    divisors = ("", "1", "16") if text.startswith("*") else ("", "1", "2", "4", "8", "16", "256")
    if found is None or bracket or divisible not in divisors:
        raise Wrong(f"'{text}' is no type; expected one such as '*f32', '*f32:1', 'i32', 'i32:16'")
    if text.startswith("*"):
        return found._pointer, 8 if divisible == "1" else 16, None
    if found is int1:
        return BOOL, 1, None
    if found.name.startswith(("float", "bfloat")):
        return DOUBLE, double_bits(0.5), None
    base = {"int64": 1 << 40, "uint64": -1 << 62}.get(found.name, 1 << 20)
    return UINT if found.name == "uint64" else INT, base + (int(divisible) % 256 if divisible not in ("", "1") else 3), None


def is_type(text):
    try:
        return bool(type_words(text))
    except Wrong:
        return False
