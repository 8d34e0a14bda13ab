"""Devices and arrays in their memory."""

import ctypes
import math
import os
import threading

from .dtypes import BY_TYPESTR, SUPPORTED, dtype_of
from .errors import DeviceError
from .library import check, lib, make
from .memory import HOST, extent_of
from .structs import DeviceStruct


class Device:
    """A GPU or the emulator: Device.default(), Device.cuda(ordinal), Device.emulator(target)."""

    _cuda = {}
    _emulators = {}
    _opening = threading.Lock()  # each is opened once, since kernels are ready on the very device

    def __init__(self, handle, place):
        self._handle, self._place = handle, place
        facts = DeviceStruct(ctypes.sizeof(DeviceStruct))
        check(lib.tegula_device_describe(handle, ctypes.byref(facts)))
        self.name, self.target, self.is_emulator = facts.name.decode(), facts.target.decode(), bool(facts.emulator)
        self.sm, self.num_sms, self.driver_version = facts.sm, facts.num_sms, facts.driver_version
        self.memory_bytes, self.l2_bytes = facts.memory_bytes, facts.l2_bytes
        self.shared_per_program = facts.shared_per_program

    # Devices live as long as the process, since kernels keep what they have made ready on them.

    @staticmethod
    def cuda(ordinal=0):
        """A GPU, in the context that torch and others of this process use."""
        if ordinal not in Device._cuda:
            with Device._opening:
                if ordinal not in Device._cuda:
                    Device._cuda[ordinal] = Device(make(lib.tegula_device_cuda, ordinal), ordinal)
        return Device._cuda[ordinal]

    @staticmethod
    def emulator(target=None):
        """The emulator, standing for a GPU such as "sm_80"; None: TEGULA_TARGET of the environment, else sm_90a."""
        with Device._opening:
            if target not in Device._emulators:
                device = Device(make(lib.tegula_device_emulator, target.encode() if target else None), HOST)
                if target is not None:
                    device._place = device
                Device._emulators[target] = device
            return Device._emulators[target]

    @staticmethod
    def default():
        """The first GPU if there is one, else the emulator; the environment's TEGULA_DEVICE decides."""
        wanted = os.environ.get("TEGULA_DEVICE")
        if wanted not in (None, "", "gpu", "emulator"):
            raise DeviceError(f"TEGULA_DEVICE is '{wanted}', expected 'gpu' or 'emulator'")
        if wanted != "emulator":
            try:
                return Device.cuda(0)
            except DeviceError:
                if wanted == "gpu":
                    raise
        return Device.emulator()

    def array(self, source):
        """A copy of a numpy array, or of anything with __array_interface__, in the device's memory."""
        return DeviceArray(self, source)

    def empty(self, shape, dtype):
        """An array in the device's memory that nobody has written: the emulator's checks find reads of it."""
        return DeviceArray._unwritten(self, (shape, ) if isinstance(shape, int) else tuple(shape), dtype)

    def synchronize(self, stream=None):
        """Waits for the work on a stream."""
        check(lib.tegula_device_synchronize(self._handle, stream))

    def __repr__(self):
        return f"<tegula.Device {self.name}>"


def device_at(place):
    if isinstance(place, Device):
        return place
    return Device.emulator() if place == HOST else Device.cuda(place)


class DeviceArray:
    """Elements in a device's memory, in row-major order, for those without torch. Made by Device.array() and
    Device.empty()."""

    def __init__(self, device, source):
        self._handle = None
        interface = source.__array_interface__
        found = dtype_of(getattr(source, "dtype", None)) or BY_TYPESTR.get(interface["typestr"])
        if found is None:
            raise TypeError(f"an array of type {interface['typestr']!r}; supported are {SUPPORTED}")
        if interface.get("strides") is not None:
            raise TypeError("the array is not contiguous; pass a contiguous copy")
        self._allocate(device, tuple(interface["shape"]), found)
        check(lib.tegula_buffer_upload(self._handle, 0, interface["data"][0], self.nbytes, None))

    @classmethod
    def _unwritten(cls, device, shape, dtype):
        found = dtype_of(dtype)
        if found is None:
            raise TypeError(f"{dtype!r} is no dtype; supported are {SUPPORTED}")
        array = cls.__new__(cls)
        array._allocate(device, shape, found)
        return array

    def _allocate(self, device, shape, dtype):
        self._handle = None
        self.device, self.dtype, self.shape = device, dtype, shape
        self.nbytes = dtype.itemsize * math.prod(shape)
        self._handle = make(lib.tegula_buffer_create, device._handle, self.nbytes)
        self.address = lib.tegula_buffer_address(self._handle)

    def copy_to(self, target):
        """Copies all elements into a contiguous array of the host's, as large as this one. Waits for them."""
        interface = target.__array_interface__
        if extent_of(target)[1] != self.nbytes or interface.get("strides") is not None:
            raise TypeError(f"expected a contiguous array of {self.nbytes} bytes")
        check(lib.tegula_buffer_download(self._handle, 0, interface["data"][0], self.nbytes, None))

    def numpy(self):
        """A copy as a numpy array (bfloat16 as uint16, float8 as uint8)."""
        import numpy
        out = numpy.empty(self.shape, self.dtype.typestr or f"<u{self.dtype.itemsize}")
        self.copy_to(out)
        return out

    def _elements(self):
        return self.nbytes, self.dtype.itemsize, self.shape, None, self.address

    def _words(self):
        return self.dtype._pointer, self.address, self.device._place

    def __del__(self, release=lib.tegula_buffer_release):
        if self._handle:
            release(self._handle)


def raise_places(what, first, one, other, two):

    def text(place):
        return "on the host" if place == HOST else f"on {place.name}" if isinstance(place, Device) else f"on GPU {place}"

    raise TypeError(f"{what}(): the data of '{first}' is {text(one)}, that of '{other}' {text(two)}; all data of a "
                    "launch belongs on one device")


def lent(device, ranges, work):
    """Works while the emulator may access ranges of the host's memory."""
    begun = []
    try:
        for begin, size in ranges:
            check(lib.tegula_device_register_host(device, begin, size))
            begun.append(begin)
        return work()
    finally:
        for begin in begun:
            lib.tegula_device_unregister_host(device, begin)
