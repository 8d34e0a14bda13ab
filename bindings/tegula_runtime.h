/* The C interface of libtegula_runtime: kernels compiled ahead of time by `tegula build`, launched without a compiler.
 *
 *   tegula_package* package;
 *   tegula_device* device;
 *   tegula_packaged* softmax;
 *   if (tegula_package_read("app.tgp", &package) || tegula_device_cuda(0, &device) ||
 *       tegula_package_load(package, device, "softmax", NULL, &softmax)) {
 *     fprintf(stderr, "%s\n", tegula_last_error());
 *     return 1;
 *   }
 *   tegula_value args[] = {tegula_pointer(out, TEGULA_FLOAT32), tegula_pointer(x, TEGULA_FLOAT32), tegula_int(n)};
 *   tegula_packaged_launch(softmax, rows, 1, 1, NULL, args, 3);
 *
 * - A function returns a status: TEGULA_OK, or what went wrong. tegula_last_error() then tells all of it. No C++
 * exception leaves this interface, and a function that fails leaves its results as they were.
 * - Handles are released by the function named so; releasing NULL does nothing. A handle holds on to what it was made
 *   from: a kernel may be used after its package was released, a buffer after its device was.
 * - Any function may be called from any thread, the same handle included, unless another thread releases it.
 * - Strings are UTF-8 and end with a zero byte. Those that come back live as long as the handle they were asked of.
 * - A later version adds functions, enumerators, and fields at the end of the structures that begin with struct_size;
 *   what is here stays. TEGULA_ABI changes only when that is broken. */
#ifndef TEGULA_RUNTIME_H
#define TEGULA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TEGULA_ABI 1

/* The library's version, "0.1.0", and the TEGULA_ABI that it was built with. */
const char* tegula_version(void);
int32_t tegula_abi(void);

/* ---- Errors */

typedef int32_t tegula_status;
enum {
  TEGULA_OK = 0,
  TEGULA_COMPILE_ERROR = 1,     /* the kernel's text, or what it is compiled for, is wrong */
  TEGULA_LAUNCH_ERROR = 2,      /* the arguments or options of a launch do not fit the kernel */
  TEGULA_DEVICE_ERROR = 3,      /* a device or its driver refused */
  TEGULA_DEVICE_LOST_ERROR = 4, /* a kernel that ran earlier faulted: the GPU cannot be used by this process any more */
  TEGULA_FILE_ERROR = 5,        /* a file could not be read or written */
  TEGULA_USAGE_ERROR = 6,       /* this interface was misused: a null handle, a kind that is none */
  TEGULA_OTHER_ERROR = 7,       /* memory ran out, or the like */
  TEGULA_INTERNAL_ERROR = 8     /* a mistake of Tegula's own: its text says what to report */
};

/* What the last function that failed on this thread has to say; valid until the next one fails. Never NULL. */
const char* tegula_last_error(void);

/* The mistakes that the last TEGULA_COMPILE_ERROR on this thread told of, one by one; 0 if the last error was another.
 */
typedef struct tegula_diagnostic {
  size_t struct_size;  /* sizeof(tegula_diagnostic), set by the caller */
  const char* file;    /* NULL if there is no place */
  int32_t line;        /* from 1; 0: not known */
  int32_t column;      /* from 1; 0: not known */
  const char* message; /* what was found, what was expected */
  const char* hint;    /* what to do; empty if nothing is known */
} tegula_diagnostic;
size_t tegula_num_diagnostics(void);
/* The texts live until the next function fails on this thread. */
tegula_status tegula_get_diagnostic(size_t index, tegula_diagnostic* diagnostic);

/* For callbacks: the text of the error that they return. */
void tegula_set_error(const char* text);

/* ---- Values: arguments of launches, and compile-time arguments */

typedef int32_t tegula_dtype;
enum {
  TEGULA_INT1 = 1, /* bool; one byte in memory */
  TEGULA_INT8 = 2,
  TEGULA_INT16 = 3,
  TEGULA_INT32 = 4,
  TEGULA_INT64 = 5,
  TEGULA_UINT8 = 6,
  TEGULA_UINT16 = 7,
  TEGULA_UINT32 = 8,
  TEGULA_UINT64 = 9,
  TEGULA_FLOAT16 = 10,
  TEGULA_BFLOAT16 = 11,
  TEGULA_FLOAT32 = 12,
  TEGULA_FLOAT64 = 13,
  TEGULA_FLOAT8E4NV = 14,  /* E4M3 without infinities */
  TEGULA_FLOAT8E5 = 15,    /* E5M2 */
  TEGULA_FLOAT8E4B15 = 16, /* Triton's E4M3 with a half's bias, without infinities and NaNs */
  TEGULA_FLOAT8E4B8 = 17,  /* E4M3 with one zero and one NaN */
  TEGULA_FLOAT8E5B16 = 18  /* E5M2 with one zero and one NaN */
};

typedef int32_t tegula_kind;
enum {
  TEGULA_NONE = 0,       /* None: a null pointer argument, or the constexpr None */
  TEGULA_POINTER = 1,    /* as.u, to elements of `dtype` in memory that the device reaches */
  TEGULA_INT = 2,        /* as.i */
  TEGULA_UINT = 3,       /* as.u */
  TEGULA_DOUBLE = 4,     /* as.d; passed in the type of the parameter, fp32 if it names none */
  TEGULA_BOOL = 5,       /* as.i, 0 or 1 */
  TEGULA_STRING = 6,     /* as.s; constexprs alone */
  TEGULA_DTYPE = 7,      /* `dtype`; constexprs alone */
  TEGULA_DESCRIPTOR = 8, /* as.t, of elements of `dtype`; arguments alone */
  TEGULA_TUPLE = 9,      /* as.p; constexprs alone. For a parameter that is no constexpr, it stands for the argument. In
                            what tegula_config_constexpr() gives as.p is NULL */
  TEGULA_NEXT = 10,      /* items of such tuples alone: the next of the arguments */
  TEGULA_TENSOR = 11     /* as.n, of elements of `dtype`; operands of the kernel library alone */
};

/* An array in memory for a parameter that the kernel uses as a tensor descriptor. */
typedef struct tegula_descriptor {
  uint64_t address;           /* of the first element */
  int32_t rank;               /* 1 to 5: how many each of the following */
  int32_t pad_nan;            /* 1: elements outside of the array are read as NaN; 0: as 0 */
  const int64_t* shape;       /* extents */
  const int64_t* strides;     /* in elements; the last one is 1 */
  const int64_t* block_shape; /* extents of the blocks that are loaded and stored */
} tegula_descriptor;

/* An array in memory for an operand of the kernel library. */
typedef struct tegula_tensor {
  uint64_t address;       /* of the first element */
  int32_t rank;           /* 0 to 5: how many each of the following */
  const int64_t* shape;   /* extents */
  const int64_t* strides; /* in elements; NULL: in row-major order without gaps */
} tegula_tensor;

struct tegula_value;

/* A tuple of compile-time values and, where it stands for an argument of the launch, of arguments. */
typedef struct tegula_tuple {
  const struct tegula_value* items;
  size_t count;
  const char* type;  /* of a named tuple: the name of its class; else NULL */
  const char* names; /* of a named tuple: the names of its fields, "x,y"; else NULL */
} tegula_tuple;

typedef struct tegula_value {
  tegula_kind kind;
  tegula_dtype dtype; /* of TEGULA_POINTER, TEGULA_DTYPE and TEGULA_DESCRIPTOR; else 0 */
  union {
    int64_t i;
    uint64_t u;
    double d;
    const char* s;
    const tegula_descriptor* t;
    const tegula_tuple* p;
    const tegula_tensor* n;
  } as;
  uint64_t bytes; /* of TEGULA_POINTER and TEGULA_DESCRIPTOR: what may be read and written there, for tuning
                     (reset_to_zero, restore_value); 0: not known */
} tegula_value;

/* ---- Devices */

typedef struct tegula_device tegula_device;
typedef void* tegula_stream; /* a CUstream or cudaStream_t; NULL: the default stream. The emulator ignores it. */

typedef struct tegula_device_facts {
  size_t struct_size; /* sizeof(tegula_device_facts), set by the caller */
  const char* name;   /* "NVIDIA H200", "emulator (sm_90a)" */
  const char* target; /* what it compiles for: "sm_90a" */
  int32_t emulator;   /* 1 for the emulator */
  int32_t sm;         /* compute capability: 90 for 9.0 */
  int32_t num_sms;
  int32_t driver_version; /* 13000 for CUDA 13.0; 0 for the emulator */
  int64_t memory_bytes;
  int64_t l2_bytes;
  int64_t shared_per_program;
} tegula_device_facts;

/* GPU `ordinal` in its primary context, which other libraries of the process share: their memory and streams work. */
tegula_status tegula_device_cuda(int32_t ordinal, tegula_device** device);
tegula_status tegula_device_describe(const tegula_device* device, tegula_device_facts* facts);
/* Waits for the work on a stream. */
tegula_status tegula_device_synchronize(tegula_device* device, tegula_stream stream);
/* Kernels made ready on the device are dropped with it. */
void tegula_device_release(tegula_device* device);

/* ---- Device memory, for those who have no other library for it */

typedef struct tegula_buffer tegula_buffer;

/* `bytes` of device memory, aligned to 256 bytes, contents undefined. */
tegula_status tegula_buffer_create(tegula_device* device, size_t bytes, tegula_buffer** buffer);
uint64_t tegula_buffer_address(const tegula_buffer* buffer);
size_t tegula_buffer_bytes(const tegula_buffer* buffer);
/* Copy `bytes` from and to `offset` of the buffer, ordered on the stream; host memory may be used when they return. */
tegula_status tegula_buffer_upload(tegula_buffer* buffer, size_t offset, const void* host, size_t bytes,
                                   tegula_stream stream);
tegula_status tegula_buffer_download(const tegula_buffer* buffer, size_t offset, void* host, size_t bytes,
                                     tegula_stream stream);
/* Sets every byte. */
tegula_status tegula_buffer_fill(tegula_buffer* buffer, uint8_t value, tegula_stream stream);
void tegula_buffer_release(tegula_buffer* buffer);

/* ---- Packages of compiled kernels */

typedef struct tegula_package tegula_package;

/* Reads a file of `tegula build`. TEGULA_FILE_ERROR: it is not there, is no package, is damaged. */
tegula_status tegula_package_read(const char* path, tegula_package** package);
/* The same of bytes that the program has linked in; `name` stands for them in messages. */
tegula_status tegula_package_from_bytes(const void* bytes, size_t size, const char* name, tegula_package** package);
/* The same of a package that the owner of a key has signed alone (`tegula build --sign`). `public_key` is the text of a
 * public Ed25519 key in PEM form, as `openssl pkey -pubout` writes it; needs OpenSSL's libcrypto.so.3.
 * TEGULA_FILE_ERROR names both keys where another one or nobody has signed it. */
tegula_status tegula_package_read_signed(const char* path, const char* public_key, tegula_package** package);
void tegula_package_release(tegula_package* package);

/* A specialisation. The texts live as long as the package. */
typedef struct tegula_packaged_facts {
  size_t struct_size;    /* sizeof(tegula_packaged_facts), set by the caller */
  const char* name;      /* by which programs ask for it */
  const char* config;    /* what is compiled in: "BLOCK=1024 num_warps=8" */
  const char* signature; /* "(out: *f32 a multiple of 16, n: i32)" */
  const char* targets;   /* what it is built for: "sm_80, sm_90a" */
} tegula_packaged_facts;
size_t tegula_package_num_kernels(const tegula_package* package);
/* TEGULA_USAGE_ERROR for what is past the last one. */
tegula_status tegula_package_kernel(const tegula_package* package, size_t index, tegula_packaged_facts* facts);

/* A kernel of a package made ready on a device. */
typedef struct tegula_packaged tegula_packaged;

/* Makes all specialisations of this name ready that run on the device; with `config`, those with these values and
 * options compiled in alone. TEGULA_LAUNCH_ERROR if there is none, or none for this GPU. */
tegula_status tegula_package_load(const tegula_package* package, tegula_device* device, const char* name,
                                  const char* config, tegula_packaged** kernel);
void tegula_packaged_release(tegula_packaged* kernel);

/* Launches the specialisation that assumes most of what these arguments fulfil. Does not wait for the GPU. A grid with
 * a zero starts nothing. TEGULA_LAUNCH_ERROR says for each specialisation why it does not take them. */
tegula_status tegula_packaged_launch(const tegula_packaged* kernel, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z,
                                     tegula_stream stream, const tegula_value* args, size_t num_args);

/* The same with the grid that `tegula build --grid` gave the kernel. TEGULA_LAUNCH_ERROR if it gave none. */
tegula_status tegula_packaged_launch_own_grid(const tegula_packaged* kernel, tegula_stream stream,
                                              const tegula_value* args, size_t num_args);

/* What the specialisation of a launch has compiled in. */
typedef struct tegula_packaged_config tegula_packaged_config;
const char* tegula_packaged_config_text(const tegula_packaged_config* config);
/* TEGULA_LAUNCH_ERROR if no integer of that name is compiled in. */
tegula_status tegula_packaged_config_int(const tegula_packaged_config* config, const char* name, int64_t* value);
/* The grid as a function of it. Anything but TEGULA_OK ends the launch with that status; the message then is
 * set_error()'s. */
typedef tegula_status (*tegula_packaged_grid)(void* user, const tegula_packaged_config* config, uint32_t grid[3]);
tegula_status tegula_packaged_launch_with(const tegula_packaged* kernel, tegula_packaged_grid grid, void* user,
                                          tegula_stream stream, const tegula_value* args, size_t num_args);

/* From now on nothing is compiled, assembled or tuned in this process, and the library opens no file: what has been
 * made ready runs, and what is missing is an error that says what to make ready. There is no way back. */
void tegula_seal(void);
/* Whether kernels may be compiled and tuned: 0 once the process is sealed, and where the environment has TEGULA_SEALED.
 */
int32_t tegula_may_compile(void);

/* ---- Values, made short */

static inline tegula_value tegula_none(void) {
  tegula_value v = {TEGULA_NONE, 0, {0}, 0};
  return v;
}
static inline tegula_value tegula_int(int64_t i) {
  tegula_value v = {TEGULA_INT, 0, {0}, 0};
  v.as.i = i;
  return v;
}
static inline tegula_value tegula_double(double d) {
  tegula_value v = {TEGULA_DOUBLE, 0, {0}, 0};
  v.as.d = d;
  return v;
}
static inline tegula_value tegula_bool(int b) {
  tegula_value v = {TEGULA_BOOL, 0, {0}, 0};
  v.as.i = b != 0;
  return v;
}
static inline tegula_value tegula_string(const char* s) {
  tegula_value v = {TEGULA_STRING, 0, {0}, 0};
  v.as.s = s;
  return v;
}
static inline tegula_value tegula_type(tegula_dtype dtype) {
  tegula_value v = {TEGULA_DTYPE, 0, {0}, 0};
  v.dtype = dtype;
  return v;
}
/* `address` is one on the device. */
static inline tegula_value tegula_pointer(uint64_t address, tegula_dtype dtype) {
  tegula_value v = {TEGULA_POINTER, 0, {0}, 0};
  v.dtype = dtype;
  v.as.u = address;
  return v;
}
/* For the kernel library; `tensor` must live until the call returns. */
static inline tegula_value tegula_array(const tegula_tensor* tensor, tegula_dtype dtype) {
  tegula_value v = {TEGULA_TENSOR, 0, {0}, 0};
  v.dtype = dtype;
  v.as.n = tensor;
  return v;
}

#ifdef __cplusplus
}
#endif

#endif /* TEGULA_RUNTIME_H */
