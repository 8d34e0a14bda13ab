"""torch, where the process uses it: known from the first tensor on. Nothing here imports it."""

import sys

from .dtypes import DTYPES, OTHER_NAMES, dtype_named

torch = None
torch_types = set()  # classes whose instances are taken without asking for their layout
torch_tags = {}  # torch's dtypes: the tag of a pointer to such elements


def is_tensor(x):
    """Whether x is a torch tensor; false before the first one is met as an argument."""
    return torch is not None and isinstance(x, torch.Tensor)


def meet_tensor(x):
    """Whether x is a torch tensor; from the first one on torch is known."""
    global torch
    module = sys.modules.get("torch")
    if not module or not isinstance(x, module.Tensor):
        return False
    if not torch:
        torch = module
        for name in (*DTYPES, *OTHER_NAMES):
            if hasattr(torch, name):
                torch_tags[getattr(torch, name)] = dtype_named(name)._pointer
    if type(x) in (torch.Tensor, torch.nn.Parameter):
        torch_types.add(type(x))
    return True


def current_stream(ordinal):
    """The number of torch's current stream on a GPU."""
    module = torch or sys.modules["torch"]
    try:
        return module._C._cuda_getCurrentRawStream(ordinal)
    except AttributeError:
        return module.cuda.current_stream(ordinal).cuda_stream


def is_of_torch(x):
    """Whether x is a torch tensor, or an object whose elements have a dtype of torch's: a view that a library made."""
    return is_tensor(x) or type(getattr(x, "dtype", None)).__module__ == "torch"


def stream_of(arrays, device):
    """The stream to launch on, where not all data is in torch's tensors: torch's current one if any is of torch, else that
    of the first array whose interface names one. Work on other streams that arrays name is waited for."""
    ours = [current_stream(device._place) for x in arrays if is_of_torch(x)][:1]
    named = [(getattr(x, "__cuda_array_interface__", None) or {}).get("stream") for x in arrays
             if not (is_tensor(x))]
    named = [s for s in dict.fromkeys(named) if s is not None]
    stream = ours[0] if ours else named[0] if named else None
    for other in named:
        if other != stream:
            device.synchronize(other)
    return stream
