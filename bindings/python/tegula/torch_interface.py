"""torch's stable C interface of tensors (torch/csrc/inductor/aoti_torch/c/shim.h), for the library's fast way: nothing is
asked of a tensor by a call of Python. Where a torch lacks some of it, its tensors are asked by their attributes."""

import ctypes
import os

PER_TENSOR = ("data_ptr", "dtype", "device_type", "device_index", "dim", "sizes", "strides")


def find(torch, dtypes):
    """(place, gpu, numbers, functions), or None: bytes from the begin of a tensor's object to the tensor, torch's number
    of CUDA among devices and of each of the dtypes, addresses of the functions for PER_TENSOR and for the current stream."""
    try:
        cpu, cuda = loaded("libtorch_cpu.so"), loaded("libtorch_cuda.so")
        functions = [cpu["aoti_torch_get_" + name] for name in PER_TENSOR]
        functions.append(cuda["aoti_torch_get_current_cuda_stream"])
        place = place_of_tensors(torch)
        numbers = [dtype_number(torch.empty(0, dtype=dtype, device="cpu"), place, cpu) for dtype in dtypes]
        gpu = cpu["aoti_torch_device_type_cuda"]()
    except (OSError, AttributeError, RuntimeError, TypeError, ValueError):
        return None
    return place, gpu, tuple(numbers), tuple(ctypes.cast(f, ctypes.c_void_p).value for f in functions)


def loaded(name):
    """A library that the process has loaded already; OSError if it has not."""
    return ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)


def place_of_tensors(torch):
    """Bytes from the begin of a tensor's object to the tensor, a pointer to what torch keeps of it: where the word stands
    that a handle of the same tensor begins with. AttributeError where there is not one such place."""
    found = set()
    for tensor in (torch.empty(3, device="cpu"), torch.nn.Parameter(torch.empty(2, 2, device="cpu"))):
        kept = kept_of(torch, tensor)
        words = range(16, type(tensor).__basicsize__, 8)  # behind the object's head
        found.add(tuple(place for place in words if word_at(id(tensor) + place) == kept))
    places = found.pop()
    if found or len(places) != 1:
        raise AttributeError("tensors lie at no one place in their objects")
    return places[0]


def kept_of(torch, tensor):
    """The address of what torch keeps of a tensor."""
    capsule = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors([tensor])[0]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    kept = word_at(pointer(capsule, None))
    torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr(capsule)  # frees the handle
    return kept


def word_at(address):
    return ctypes.c_uint64.from_address(address).value


def dtype_number(tensor, place, library):
    number = ctypes.c_int32()
    if library["aoti_torch_get_dtype"](ctypes.c_void_p(id(tensor) + place), ctypes.byref(number)):
        raise RuntimeError("torch tells no number of a dtype")
    return number.value
