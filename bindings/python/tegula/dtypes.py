"""Element types, and the names that others have for them."""

import struct

NONE, POINTER, INT, UINT, DOUBLE, BOOL, STRING, DTYPE, DESCRIPTOR, TUPLE, NEXT, TENSOR = range(12)


class dtype:
    """An element type: tegula.float32 and so on. A constexpr, and what reinterpret() takes."""

    def __init__(self, name, number, itemsize, typestr):
        self.name, self.itemsize, self.typestr = name, itemsize, typestr
        self._pointer, self._tag = POINTER | number << 32, DTYPE | number << 32
        self._descriptor = DESCRIPTOR | number << 32

    def __repr__(self):
        return f"tegula.{self.name}"


DTYPES = {}
for _number, (_name, _typestr) in enumerate([("int1", "|b1"), ("int8", "|i1"), ("int16", "<i2"), ("int32", "<i4"),
                                             ("int64", "<i8"), ("uint8", "|u1"), ("uint16", "<u2"), ("uint32", "<u4"),
                                             ("uint64", "<u8"), ("float16", "<f2"), ("bfloat16", None),
                                             ("float32", "<f4"), ("float64", "<f8"), ("float8e4nv", None),
                                             ("float8e5", None), ("float8e4b15", None), ("float8e4b8", None),
                                             ("float8e5b16", None)], 1):
    _itemsize = int(_typestr[2:]) if _typestr else 1 if "8" in _name else 2
    DTYPES[_name] = globals()[_name] = dtype(_name, _number, _itemsize, _typestr)
BY_TYPESTR = {d.typestr: d for d in DTYPES.values() if d.typestr}
# As Triton, torch and PTX say it besides.
OTHER_NAMES = {
    "bool": "int1", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "i1": "int1",
    "half": "float16", "float": "float32", "double": "float64", "f16": "float16", "f32": "float32", "f64": "float64",
    "float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5", "float8_e4m3fnuz": "float8e4b8",
    "float8_e5m2fnuz": "float8e5b16", "f8e4m3": "float8e4nv", "f8e5m2": "float8e5",
    **{f"fp8{k}": f"float8{k}"
       for k in ("e4nv", "e5", "e4b15", "e4b8", "e5b16")},
    **{f"f8{k}": f"float8{k}"
       for k in ("e4b15", "e4b8", "e5b16")},
    **{f"{k[0]}{b}": f"{k}{b}"
       for k in ("int", "uint")
       for b in (8, 16, 32, 64)}
}
SUPPORTED = "bool, " + ", ".join(list(DTYPES)[1:])


def dtype_named(name):
    return DTYPES.get(OTHER_NAMES.get(name, name))


def dtype_of(x):
    """The dtype that an object of ours, torch, numpy or Triton stands for; None if it is none."""
    if isinstance(x, dtype):
        return x
    origin = type(x).__module__.partition(".")[0]
    if origin == "torch" and type(x).__name__ == "dtype":
        return dtype_named(str(x)[len("torch."):])
    if origin == "numpy" and hasattr(x, "byteorder"):
        return dtype_named(x.name) if x.byteorder in "=<|" else None
    if isinstance(x, type) and x.__module__ in ("numpy", "ml_dtypes"):
        return dtype_named(x.__name__)
    if origin == "triton" and type(x).__name__ == "dtype":
        return dtype_named(x.name)
    return None


DOUBLE_STRUCT, WORD_STRUCT = struct.Struct("d"), struct.Struct("q")


def double_bits(x):
    return WORD_STRUCT.unpack(DOUBLE_STRUCT.pack(x))[0]
