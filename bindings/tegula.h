/* The C interface of Tegula: kernels from text, compiled and launched on a GPU or on the emulator.
 *
 *   tegula_device* device;
 *   tegula_program* program;
 *   tegula_kernel* kernel;
 *   if (tegula_device_default(&device) || tegula_program_load("softmax.py", &program) ||
 *       tegula_program_kernel(program, "softmax_kernel", &kernel)) {
 *     fprintf(stderr, "%s\n", tegula_last_error());
 *     return 1;
 *   }
 *   tegula_constexpr block = {"BLOCK", tegula_int(1024)};
 *   tegula_options options = {.struct_size = sizeof options, .num_warps = 8};
 *   options.constexprs = &block;
 *   options.num_constexprs = 1;
 *   tegula_value args[] = {tegula_pointer(out, TEGULA_FLOAT32), tegula_pointer(x, TEGULA_FLOAT32), tegula_int(n)};
 *   tegula_kernel_launch(kernel, device, rows, 1, 1, &options, NULL, args, 3);
 *
 * - A function returns a status: TEGULA_OK, or what went wrong. tegula_last_error() then tells all of it, with file,
 * line and hint where there are some. No C++ exception leaves this interface, and a function that fails leaves its
 * results as they were.
 * - Handles are released by the function named so; releasing NULL does nothing. A handle holds on to what it was made
 *   from: a kernel may be used after its program was released, a buffer after its device was.
 * - Any function may be called from any thread, the same handle included, unless another thread releases it.
 * - Strings are UTF-8 and end with a zero byte. Those that come back live as long as the handle they were asked of.
 * - A later version adds functions, enumerators, and fields at the end of the structures that begin with struct_size;
 *   what is here stays. Fields of a later version than the library's must be 0. TEGULA_ABI changes only when that is
 * broken. */
#ifndef TEGULA_H
#define TEGULA_H

#include "tegula_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Messages that are no errors */

typedef int32_t tegula_message_kind;
enum {
  TEGULA_WARNING = 0, /* of the library, or of a kernel that compiles: place, text, source lines, hint */
  TEGULA_PRINT = 1    /* lines of tl.static_print */
};
/* Called by the thread that compiles or launches, which may be one of the library's own; must not call the library. */
typedef void (*tegula_message_function)(void* user, tegula_message_kind kind, const char* text);
/* Who is told of messages from now on, in the whole process; NULL: the standard error stream, as at first. The
 * environment's TEGULA_WARNINGS = off keeps warnings from both. */
void tegula_set_message_handler(tegula_message_function handler, void* user);

/* ---- Compile-time arguments, and options of launches */

typedef struct tegula_constexpr {
  const char* name;
  tegula_value value;
} tegula_constexpr;

typedef struct tegula_options {
  size_t struct_size; /* sizeof(tegula_options) */
  const tegula_constexpr* constexprs;
  size_t num_constexprs;
  int32_t num_warps;           /* 0: 4, or the configuration's */
  int32_t num_stages;          /* 0: 3, or the configuration's */
  int32_t maxnreg;             /* registers a thread at most; 0: no limit, or the configuration's */
  int32_t no_dependent_launch; /* 1: the kernel never starts before the one ahead of it in the stream is done */
  int32_t num_ctas;         /* thread blocks that run a program together (GPUs from sm_90 on): 1, 2, 4, 8 or 16; 0: 1 */
  int32_t cooperative_grid; /* 1: all programs run at once, or the launch fails; as with no_dependent_launch */
  int32_t no_fp_fusion;     /* 1: a product and a sum never become one fma */
  int32_t warp_specialize;  /* warps of their own for the copies of loops: 1 never, 2 wherever it is possible, 3 with
                               tiles in turns; 0: where it is expected to pay, or as the configuration says */
  int32_t bulk_copies;      /* copies of loops by tensor maps: 0, 1 and 2 likewise */
  int32_t
      debug; /* 1: asserts are carried out; 2: and what a debugger asks for; 0: TEGULA_DEBUG or TRITON_DEBUG decide */
  int32_t program_bits; /* of the number of programs of a launch, where that is known (11: 1024 to 2047 programs): code
                           that is fast for so many takes less time to compile; 0: any number */
  int32_t no_sanitize_overflow; /* 1: with debug, integers that overflow are no failed asserts */
  int32_t program_loop;         /* programs that run at a time take those of the grid in turns: as bulk_copies */
  int32_t reserved;             /* 0; what a later version adds takes its place */
} tegula_options;

/* ---- Devices, besides those of tegula_runtime.h */

/* The first GPU if there is one, else the emulator; the environment's TEGULA_DEVICE = gpu or emulator decides. */
tegula_status tegula_device_default(tegula_device** device);
/* The emulator, standing for a GPU ("sm_80"); NULL: TEGULA_TARGET of the environment, else sm_90a. */
tegula_status tegula_device_emulator(const char* target, tegula_device** device);
/* Lets kernels on the emulator access an array of the caller's, until it is unregistered (once for each time that it
 * was registered). Ranges may overlap. TEGULA_USAGE_ERROR on a GPU. */
tegula_status tegula_device_register_host(tegula_device* device, const void* begin, size_t bytes);
tegula_status tegula_device_unregister_host(tegula_device* device, const void* begin);

/* ---- Programs: files in the Triton language */

typedef struct tegula_program tegula_program;
typedef struct tegula_kernel tegula_kernel;

tegula_status tegula_program_load(const char* path, tegula_program** program);
/* The same from text; `name` stands for the file in messages. */
tegula_status tegula_program_parse(const char* text, const char* name, tegula_program** program);
/* The same with values of module-level names, in the file and in those that it imports from, in place of what the files
 * give them, and with the folders where packages lie that it imports from besides its own, as Python's sys.path. */
tegula_status tegula_program_load_with(const char* path, const tegula_constexpr* globals, size_t num_globals,
                                       const char* const* import_folders, size_t num_import_folders,
                                       tegula_program** program);
tegula_status tegula_program_parse_with(const char* text, const char* name, const tegula_constexpr* globals,
                                        size_t num_globals, const char* const* import_folders,
                                        size_t num_import_folders, tegula_program** program);
/* The @triton.jit functions, in the order of the file. */
size_t tegula_program_num_kernels(const tegula_program* program);
const char* tegula_program_kernel_name(const tegula_program* program, size_t index); /* NULL past the last */
tegula_status tegula_program_kernel(const tegula_program* program, const char* name, tegula_kernel** kernel);
void tegula_program_release(tegula_program* program);

/* ---- Kernels */

typedef struct tegula_param {
  const char* name;
  int32_t is_constexpr;
  int32_t has_default;
  int32_t is_zeroed;   /* tuning zeroes what it points to (reset_to_zero): give tegula_value.bytes */
  int32_t is_restored; /* tuning saves and restores what it points to (restore_value): the same */
} tegula_param;

const char* tegula_kernel_name(const tegula_kernel* kernel);
/* The signature, in order. */
size_t tegula_kernel_num_params(const tegula_kernel* kernel);
tegula_status tegula_kernel_param(const tegula_kernel* kernel, size_t index, tegula_param* param);
/* Sets *tuned to 1 if the kernel chooses among configurations (@triton.autotune), else to 0. */
tegula_status tegula_kernel_is_tuned(const tegula_kernel* kernel, int32_t* tuned);
void tegula_kernel_release(tegula_kernel* kernel);

/* What a launch runs with: the constexprs that it gives or that follow (from a configuration or a heuristic), and
 * options. Lives as long as the kernel; equal configurations of a kernel are the same pointer. */
typedef struct tegula_config tegula_config;

/* "BLOCK=1024 num_warps=4" */
const char* tegula_config_text(const tegula_config* config);
size_t tegula_config_num_constexprs(const tegula_config* config);
tegula_status tegula_config_constexpr(const tegula_config* config, size_t index, tegula_constexpr* out);
/* `name` may also be num_warps, num_stages, maxnreg or num_ctas. TEGULA_LAUNCH_ERROR if there is no such integer. */
tegula_status tegula_config_int(const tegula_config* config, const char* name, int64_t* value);

/* The grid as a function of the configuration that is launched. Anything but TEGULA_OK ends the launch with that
 * status; the message then is set_error()'s. */
typedef tegula_status (*tegula_grid_function)(void* user, const tegula_config* config, uint32_t grid[3]);

/* A hook of a tuned kernel, called by the thread that launches. `config` is what the launch or the timed run has.
 * Anything but TEGULA_OK ends the launch with that status; the message then is set_error()'s. */
typedef tegula_status (*tegula_hook)(void* user, const tegula_config* config, int32_t reset_only, const char* error);
/* The same kernel with hooks in place of those of its file: `config_hook` before each launch with a configuration that
 * tuning chose and before each timed run, `pre_hook` before each timed run and once more, with reset_only 1, when the
 * choice is made, `post_hook` behind each timed run, with the error of its launch or NULL. NULL: the file's own.
 * TEGULA_USAGE_ERROR if the kernel has no configurations. */
tegula_status tegula_kernel_with_hooks(const tegula_kernel* kernel, tegula_hook config_hook, tegula_hook pre_hook,
                                       tegula_hook post_hook, void* user, tegula_kernel** hooked);
/* Sets *hooked to 1 if the kernel has hooks, of whatever kind, else to 0. They may ask for the size of any buffer: give
 * tegula_value.bytes. */
tegula_status tegula_kernel_is_hooked(const tegula_kernel* kernel, int32_t* hooked);

/* Launches on the stream, after compiling, loading or tuning what these arguments need, if that has not been done
 * before. `args` are those of the parameters that are no constexprs, in order; the last ones may be missing if they
 * have defaults. Does not wait for the GPU. A grid with a zero starts nothing. `options` may be NULL. */
tegula_status tegula_kernel_launch(const tegula_kernel* kernel, tegula_device* device, uint32_t grid_x, uint32_t grid_y,
                                   uint32_t grid_z, const tegula_options* options, tegula_stream stream,
                                   const tegula_value* args, size_t num_args);
tegula_status tegula_kernel_launch_with(const tegula_kernel* kernel, tegula_device* device, tegula_grid_function grid,
                                        void* user, const tegula_options* options, tegula_stream stream,
                                        const tegula_value* args, size_t num_args);

/* ---- The kernel library: kernels that need no writing */

/* An entry. The texts live as long as the process. */
typedef struct tegula_entry_facts {
  size_t struct_size;  /* sizeof(tegula_entry_facts), set by the caller */
  const char* name;    /* "rms_norm" */
  const char* formula; /* what it computes */
  const char*
      signature; /* "&out: T[rows, cols], x: T[rows, cols], eps: float = 1e-6": kernels/kernels.def explains it */
  size_t num_operands;
} tegula_entry_facts;
typedef struct tegula_operand_facts {
  size_t struct_size; /* sizeof(tegula_operand_facts), set by the caller */
  const char* name;
  tegula_kind kind;    /* TEGULA_TENSOR, TEGULA_INT, TEGULA_DOUBLE, TEGULA_BOOL; TEGULA_STRING: one of some names */
  int32_t is_written;  /* 1: the entry writes it */
  int32_t is_optional; /* 1: it may be left out */
} tegula_operand_facts;
size_t tegula_num_entries(void);
/* TEGULA_USAGE_ERROR for what is past the last one. */
tegula_status tegula_entry(size_t index, tegula_entry_facts* facts);
tegula_status tegula_entry_operand(size_t index, size_t operand, tegula_operand_facts* facts);

typedef struct tegula_operand {
  const char* name;
  tegula_value value;
} tegula_operand;

/* Checks the operands, in any order, and runs an entry of the library on the stream, after compiling, loading or tuning
 * what it needs, if that has not been done before. Does not wait for the GPU. Operands that are left out, or
 * TEGULA_NONE, have their defaults. TEGULA_LAUNCH_ERROR for operands that do not fit. */
tegula_status tegula_call(tegula_device* device, const char* entry, tegula_stream stream,
                          const tegula_operand* operands, size_t num_operands);

/* ---- Compiled kernels, to look at */

typedef struct tegula_image tegula_image;

typedef struct tegula_image_facts {
  size_t struct_size; /* sizeof(tegula_image_facts), set by the caller */
  const char* target; /* "sm_90a" */
  int32_t num_warps;
  int32_t registers;   /* a thread; -1: not known, as without a GPU */
  int32_t spill_bytes; /* a thread; -1: not known */
  int64_t shared_bytes;
} tegula_image_facts;

/* Compiles for a GPU ("sm_90a") as a launch with these arguments would, without a device. Pointers are not followed;
 * what counts is their alignment. Every constexpr without a default is given. */
tegula_status tegula_kernel_compile(const tegula_kernel* kernel, const char* target, const tegula_options* options,
                                    const tegula_value* args, size_t num_args, tegula_image** image);
/* Sets written[i] to 1 for each argument that the kernel may write through, else to 0. */
tegula_status tegula_kernel_written_args(const tegula_kernel* kernel, const tegula_options* options,
                                         const tegula_value* args, size_t num_args, uint8_t* written);
/* What a launch costs and why, counted and predicted without running it: bytes, operations, occupancy, widths of
 * accesses, the bound, a time. `target`: a row of targets.def, or NULL for the device's. `measure`, if not 0, launches
 * and times it as well, on a GPU. The arguments' arrays are read where addresses follow from data. */
typedef struct tegula_explanation tegula_explanation;
tegula_status tegula_kernel_explain(const tegula_kernel* kernel, tegula_device* device, const char* target,
                                    tegula_grid_function grid, void* user, const tegula_options* options,
                                    tegula_stream stream, const tegula_value* args, size_t num_args, int32_t measure,
                                    tegula_explanation** explanation);
/* Valid as long as the explanation. */
const char* tegula_explanation_text(const tegula_explanation* explanation);
const char* tegula_explanation_json(const tegula_explanation* explanation);
const char* tegula_explanation_svg(const tegula_explanation* explanation); /* the roofline plot */
void tegula_explanation_release(tegula_explanation* explanation);
/* Records a program of the launches on an emulator from here on that have it, each in place of the one before, where
 * their option `debug` is 2. The first command ends that. One debugger records at a time on a device. */
typedef struct tegula_debugger tegula_debugger;
tegula_status tegula_device_record(tegula_device* device, uint32_t program_x, uint32_t program_y, uint32_t program_z,
                                   tegula_debugger** debugger);
/* Carries out a command of `tegula debug` ("help" lists them). `text` and `json`, where not NULL, receive the answer,
 * valid until the next command; `refused` whether the command meant nothing. */
tegula_status tegula_debugger_execute(tegula_debugger* debugger, const char* command, const char** text,
                                      const char** json, int32_t* refused);
void tegula_debugger_release(tegula_debugger* debugger);

/* Whether launches that follow one another should be one kernel. `kept`: addresses of arrays that are read behind them
 * although one of them reads them. The texts are valid until the thread calls this again. */
tegula_status tegula_advise_fusion(const tegula_explanation* const* explanations, size_t num_explanations,
                                   const uint64_t* kept, size_t num_kept, const char** text, const char** json);

/* What a launch on the device with these arguments runs, made ready. `config`, if not NULL, receives what it runs with.
 * For a kernel that is tuned, this tunes: `grid` is needed. */
tegula_status tegula_kernel_prepare(const tegula_kernel* kernel, tegula_device* device, tegula_grid_function grid,
                                    void* user, const tegula_options* options, tegula_stream stream,
                                    const tegula_value* args, size_t num_args, tegula_image** image,
                                    const tegula_config** config);
/* Makes ready on the device, in parallel, all that `file` names: a list of kernels (TEGULA_RECORD) is compiled, or
 * comes from the cache; a package of `tegula build` is loaded. For launches of programs with the same text. `ready`, if
 * not NULL, receives how many are ready. TEGULA_LAUNCH_ERROR lists those that cannot be, after the others were; it is
 * one, too, if a package has no code for the device. tegula_seal() then lets nothing else compile. */
tegula_status tegula_prewarm(tegula_device* device, const char* file, size_t* ready);

tegula_status tegula_image_describe(const tegula_image* image, tegula_image_facts* facts);
/* Assembly text; empty for an image of the emulator. */
const char* tegula_image_ptx(const tegula_image* image);
/* How pipelined loops copy and results of products are stored, a line each ("gemm.py:240:5: bulk copies, issued by
 * warps of their own"), and why not in bulk where they are not. It lives as long as the image. */
const char* tegula_image_transfers(const tegula_image* image);
void tegula_image_release(tegula_image* image);

#ifdef __cplusplus
}
#endif

#endif /* TEGULA_H */
