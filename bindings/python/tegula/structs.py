"""Structures and function types of the C interface (bindings/tegula.h)."""

import ctypes


class ConstexprStruct(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("tag", ctypes.c_int64), ("bits", ctypes.c_int64),
                ("bytes", ctypes.c_uint64)]


class OptionsStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("constexprs", ctypes.POINTER(ConstexprStruct)),
                ("num_constexprs", ctypes.c_size_t), ("num_warps", ctypes.c_int32), ("num_stages", ctypes.c_int32),
                ("maxnreg", ctypes.c_int32), ("no_dependent_launch", ctypes.c_int32), ("num_ctas", ctypes.c_int32),
                ("cooperative_grid", ctypes.c_int32), ("no_fp_fusion", ctypes.c_int32),
                ("warp_specialize", ctypes.c_int32), ("bulk_copies", ctypes.c_int32), ("debug", ctypes.c_int32),
                ("program_bits", ctypes.c_int32), ("no_sanitize_overflow", ctypes.c_int32),
                ("program_loop", ctypes.c_int32), ("reserved", ctypes.c_int32)]


class TupleStruct(ctypes.Structure):
    _fields_ = [("items", ctypes.c_void_p), ("count", ctypes.c_size_t), ("type", ctypes.c_char_p),
                ("names", ctypes.c_char_p)]


class DeviceStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("target", ctypes.c_char_p),
                ("emulator", ctypes.c_int32), ("sm", ctypes.c_int32), ("num_sms", ctypes.c_int32),
                ("driver_version", ctypes.c_int32), ("memory_bytes", ctypes.c_int64), ("l2_bytes", ctypes.c_int64),
                ("shared_per_program", ctypes.c_int64)]


class ImageStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("target", ctypes.c_char_p), ("num_warps", ctypes.c_int32),
                ("registers", ctypes.c_int32), ("spill_bytes", ctypes.c_int32), ("shared_bytes", ctypes.c_int64)]


class DescriptorStruct(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("rank", ctypes.c_int32), ("pad_nan", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("block_shape", ctypes.POINTER(ctypes.c_int64))]


class TensorStruct(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("rank", ctypes.c_int32), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64))]


class EntryStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("formula", ctypes.c_char_p),
                ("signature", ctypes.c_char_p), ("num_operands", ctypes.c_size_t)]


class OperandStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("kind", ctypes.c_int32),
                ("is_written", ctypes.c_int32), ("is_optional", ctypes.c_int32)]


class ParamStruct(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("is_constexpr", ctypes.c_int32), ("has_default", ctypes.c_int32),
                ("is_zeroed", ctypes.c_int32), ("is_restored", ctypes.c_int32)]


class DiagnosticStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("file", ctypes.c_char_p), ("line", ctypes.c_int32),
                ("column", ctypes.c_int32), ("message", ctypes.c_char_p), ("hint", ctypes.c_char_p)]


MessageFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p)
Hook = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p)
GridFunction = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32))
